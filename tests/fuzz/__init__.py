"""tests.fuzz"""

"""Imports and exports: lossless-claw files, Remnic files, whole archives as JSON lines, readable pages."""

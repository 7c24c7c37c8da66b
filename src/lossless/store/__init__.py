"""The archive on disk. All SQL of the package is here."""

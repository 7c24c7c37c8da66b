"""The archive on disk. All SQL of the package lives in this room."""

"""Archives in and out: lossless-claw files, Remnic files, whole archives as JSON lines, pages for people."""

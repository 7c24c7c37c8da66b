"""`lcm demo` without the command: `python examples/demo.py [FOLDER]`. It writes only into FOLDER, else into .demo."""

from __future__ import annotations

import sys
from pathlib import Path

from lossless.testing.demo import run_demo

if __name__ == "__main__":
    sys.exit(0 if run_demo(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo")) else 1)

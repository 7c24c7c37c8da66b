"""Examples as people run them: in a process of their own, and to the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_example(name: str, folder: Path) -> str:
    """What an example prints; it fails when the example does."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Writing a generated page, or saying that it is out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def write_page(module: str, page: Callable[[], str], arguments: list[str]) -> int:
    """What `python -m MODULE [--check] FILE` does; returns its exit code."""
    names = [argument for argument in arguments if argument != "--check"]
    if len(names) != 1:
        sys.stderr.write(f"usage: python -m {module} [--check] FILE\n")
        return 2
    path, text = Path(names[0]), page()
    if "--check" not in arguments:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{path} is out of date: python -m {module} {path}\n")
    return 1

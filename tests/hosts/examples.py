"""Examples as people run them: in a process of their own, and to the end."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.forking import run_forked

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def run_example(name: str, folder: Path) -> str:
    """What an example prints; it fails when the example does."""
    program = str(ROOT / "examples" / f"{name}.py")

    def child() -> None:
        sys.argv = [program, str(folder)]
        runpy.run_path(program, run_name="__main__")

    code, out, err = run_forked(child)
    assert code == 0, err
    return out


def run_page(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, instead: dict[str, Any]) -> None:
    """Run a page's examples as they stand there, but for the models: each code in `instead` is replaced by a value."""
    page = (ROOT / "docs" / "hosts" / f"{name}.md").read_text(encoding="utf-8")
    monkeypatch.chdir(folder)
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for number, wording in enumerate(instead):
            code = code.replace(wording, f"instead[{number}]")
        exec(compile(code, f"{name}.md", "exec"), {"__name__": "__main__", "instead": list(instead.values())})

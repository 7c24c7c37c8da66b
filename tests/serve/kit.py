"""Rooms and clients for the tests of doors: a folded archive, and the SDK's own client."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeVar

import anyio

import lossless
from lossless.serve.archive_tools import ArchiveTools
from tests.recall.archives import SETTINGS, folded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import mcp_types as types

    from lossless.model.conversations import Session

T = TypeVar("T")

#: A command that starts `lcm` as this interpreter has it.
LCM = [sys.executable, "-W", "error", "-m", "lossless.cli.main"]


def copied(path: Path) -> Path:
    """A copy of the folded archive, by SQLite itself."""
    engine = lossless.Engine(folded().archive, SETTINGS, background=False)
    engine.backup(path)
    return path


def room(
    path: Path, session_key: str | None = None, host: Session | None = None, settings: lossless.Settings = SETTINGS
) -> ArchiveTools:
    """A reading room on an archive."""
    return ArchiveTools(lambda: lossless.open(path, settings, background=False), session_key, host)


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run something asynchronous, for half a minute at most."""

    async def bounded() -> T:
        with anyio.fail_after(30):
            return await function()

    return anyio.run(bounded)


def text_of(result: types.CallToolResult) -> str:
    """The text of a tool's result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def environment(home: Path, **more: str) -> dict[str, str]:
    """The variables of a person who has set nothing up."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_"))}
    return kept | {"HOME": str(home)} | more

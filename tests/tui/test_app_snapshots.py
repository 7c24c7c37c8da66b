"""How it looks, at 80×24, wide, and in light colours. `pytest tests/tui --snapshot-update` draws the pictures anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.context import NewSummary
from lossless.testing import VirtualClock
from lossless.tui.app import TerminalApp
from tests.tui.kit import room_of
from tests.tui.rollouts import session_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.tui.archive import ArchiveAccess

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
FERRY = lossless.Session(key="agent:main:ferry", id="run-1")
SAID = (
    ("user", "Why does the sandbox merchant refuse the payment for [ticket 12]?"),
    (
        "assistant",
        "Its key was **rotated** on Friday; the worker has the old one:\n\n```python\nkey = KEYS[-1]\n```",
    ),
    ("user", "Rotate it there, too, and say when the night boat sells again."),
    ("assistant", "Done at 09:40:\n\n- the key is `sbx-42`\n- seats for the night boat are on sale"),
)
CALLS: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "make smoke"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "smoke: 12 checks\nall passed"},
]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ArchiveAccess]:
    """Sixteen messages and a call of a tool, some below two leaves and a summary over these; all ids are known."""
    path = tmp_path / "lcm.db"
    with lossless.open(path, clock=VirtualClock(START), background=False) as engine:
        engine.append(
            FERRY,
            [
                lossless.Incoming({"role": role, "content": text}, f"e{n}", START + timedelta(minutes=7 * n))
                for n, (role, text) in enumerate(SAID * 4)
            ],
        )
        later = START + timedelta(days=1)
        engine.append(FERRY, [lossless.Incoming(call, f"c{n}", later) for n, call in enumerate(CALLS)])
        archive = engine.archive
        for first, last, new in (
            (0, 3, NewSummary("sum_00000000000000a1", 0, "The sandbox merchant refused: its key was old.", 12, "m")),
            (1, 4, NewSummary("sum_00000000000000a2", 0, "The key was rotated; the night boat sells again.", 14, "m")),
            (0, 1, NewSummary("sum_00000000000000b1", 1, "A rotated key stopped payments until 09:40.", 11, "m")),
        ):
            sources = archive.context.items(1)[first : last + 1]
            with archive.writing():
                archive.summaries.insert(1, sources, new, START)
                archive.context.replace(1, sources, new.id, START)
    session_file(tmp_path / "files", "run-1", [text for _, text in SAID * 5][2:])
    opened = room_of(path, folders=(tmp_path / "files",))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("keys", "size", "colours"),
    [
        pytest.param(["enter"], (80, 24), "15;0", id="conversation"),
        pytest.param([], (130, 30), "15;0", id="conversations-wide"),
        pytest.param(["enter", "k", "space"], (130, 30), "0;15", id="unfolded-wide-light"),
        pytest.param(["s", "l", "j", "l"], (80, 24), "0;15", id="summaries-light"),
        pytest.param(["c"], (80, 24), "15;0", id="context"),
    ],
)
def test_it_looks_as_it_did(
    room: ArchiveAccess,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    keys: list[str],
    size: tuple[int, int],
    colours: str,
) -> None:
    monkeypatch.setenv("COLORFGBG", colours)
    monkeypatch.setenv("HOME", str(Path(room.path).parent))

    async def press(pilot: Any) -> None:
        await pilot.app.settled(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.app.settled(pilot)

    assert snap_compare(TerminalApp(room), terminal_size=size, run_before=press)

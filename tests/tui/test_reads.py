"""Windows over a conversation: every message is in reach, none is shown twice, never more than was asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.testing import VirtualClock
from lossless.tui import reads
from lossless.tui.text import LocalTimes, format_bytes
from tests.maintenance.surgery_kit import HERE, THERE, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 37


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lossless.Engine]:
    path = tmp_path_factory.mktemp("reads") / "lcm.db"
    with lossless.open(path, background=False) as opened:
        for n in range(COUNT):  # messages of another conversation lie between
            opened.append(HERE, talk(1, seed="here", first=n))
            opened.append(THERE, talk(1, seed="there", first=n))
        yield opened


@given(st.integers(1, 50))
def test_turning_pages_back_and_forth_shows_everything_once(engine: lossless.Engine, count: int) -> None:
    window = reads.older_messages(engine.browse, 1, count)
    assert not window.has_newer
    seen = [row.seq for row in window.rows]
    while window.has_older:
        window = reads.older_messages(engine.browse, 1, count, window.rows[0].seq)
        assert len(window.rows) <= count
        seen = [row.seq for row in window.rows if row.seq < seen[0]] + seen
    assert seen == list(range(1, COUNT + 1))
    assert window.rows == reads.newer_messages(engine.browse, 1, count).rows
    forth = [row.seq for row in window.rows]
    while window.has_newer:
        window = reads.newer_messages(engine.browse, 1, count, window.rows[-1].seq)
        assert len(window.rows) <= count
        forth += [row.seq for row in window.rows]
    assert forth == seen


@given(st.integers(1, 2 * COUNT + 2), st.integers(1, 50))
def test_a_window_around_a_message_has_it(engine: lossless.Engine, message_id: int, count: int) -> None:
    window = reads.messages_around(engine.browse, 1, count, message_id)
    there = engine.archive.listings.message_places([message_id]).get(message_id, (0, 0))[0] == 1
    assert len(window.rows) <= count
    assert not there or message_id in [row.message_id for row in window.rows]


def test_what_is_gone_says_so(engine: lossless.Engine) -> None:
    times = LocalTimes("UTC", VirtualClock())
    assert "no longer" in reads.message_detail(engine.browse, 10**9, times).text
    assert "no longer" in reads.summary_detail(engine.browse, "sum_nothing", times).text


@pytest.mark.parametrize(("count", "text"), [(None, "–"), (5, "5 B"), (2048, "2.0 kB"), (10**7, "9.5 MB")])
def test_sizes_are_easy_to_read(count: int | None, text: str) -> None:
    assert format_bytes(count) == text


def test_only_the_first_screen_is_loaded_at_the_start() -> None:
    script = (
        "import sys\nimport lossless.tui.app\nfrom lossless.tui import screens\n"
        "loaded = [name for name in sys.modules if name.startswith('lossless.tui.screens.')]\n"
        "print(sorted(name.rpartition('.')[2] for name in loaded), 'lossless.ingest' in sys.modules)\n"
        "print(screens.context.FocusScreen.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "['conversations', 'dialogs', 'page', 'reader'] False\nFocusScreen\n"

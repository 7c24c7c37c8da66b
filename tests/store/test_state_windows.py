"""The rows of a window are read back as they were stored, however they are packed."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lossless.model.conversations import Session
from lossless.model.records import WindowMark
from lossless.store.archive import Archive

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
#: Prompts are negative, skipped messages zero; the others are mostly runs of ids.
RUNS = st.lists(
    st.one_of(
        st.integers(-4, 6).map(lambda id_: [id_]),
        st.builds(lambda first, size: list(range(first, first + size)), st.integers(1, 40), st.integers(1, 12)),
    ),
    min_size=1,
)


@given(RUNS)
def test_the_rows_of_a_window_come_back(runs: list[list[int]]) -> None:
    rows = tuple(id_ for run in runs for id_ in run)
    with Archive.open(":memory:") as archive, archive.writing():
        conversation = archive.conversations.open(Session(key="k"), NOW)
        mark = WindowMark(1, max(rows), len(rows), b"12345678" * len(rows), rows)
        archive.ingest.set_window(conversation.id, mark, NOW)
        kept = archive.ingest.window(conversation.id)
        assert kept is not None
        assert (kept.chain, kept.rows) == (mark.chain, mark.rows)

"""Rollouts of Codex whose items carry ids that their provider gives more than once: every item is stored, once."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lossless

if TYPE_CHECKING:
    from lossless import Engine

THREAD = "0198c0de-aaaa-7bbb-8ccc-dddddddddddd"


def line(type: str, payload: dict[str, Any], second: int) -> str:
    return json.dumps({"timestamp": f"2026-07-01T09:00:{second:02}Z", "type": type, "payload": payload}) + "\n"


def item(second: int, role: str, text: str, id: str | None) -> str:
    said = {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}
    return line("response_item", said | ({} if id is None else {"id": id}), second)


def rollout(folder: Path, items: list[str]) -> Path:
    path = folder / f"rollout-2026-07-01T09-00-00-{THREAD}.jsonl"
    path.write_text(line("session_meta", {"id": THREAD, "cwd": "/x"}, 0) + "".join(items))
    return path


def read(engine: Engine, path: Path) -> list[str]:
    engine.transfer.import_transcripts("codex", [path])
    (row,) = engine.archive.listings.conversations(9).rows
    return [one.message.content for one in engine.archive.messages.in_order(row.conversation_id, limit=99)]


ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant"]),
        st.sampled_from(["yes", "no", "an answer", "another answer"]),
        st.sampled_from([None, "msg_0", "msg_1"]),
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=12)
@given(ITEMS, st.integers(0, 9))
def test_every_item_is_stored_whatever_its_id(said: list[tuple[str, str, str | None]], first: int) -> None:
    items = [item(second, *one) for second, one in enumerate(said)]
    texts = [text for _, text, _ in said]
    with TemporaryDirectory() as folder, lossless.open(Path(folder) / "a.db", background=False) as engine:
        if items[:first]:
            assert read(engine, rollout(Path(folder), items[:first])) == texts[:first]
        path = rollout(Path(folder), items)
        assert read(engine, path) == texts
        assert read(engine, path) == texts

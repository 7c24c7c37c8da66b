"""Whether a file can be of the kind that someone names, and what it is if not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless.ingest.transcripts.reading import KINDS, detect_other_kind

if TYPE_CHECKING:
    from pathlib import Path

Raw = dict[str, Any]
SAID = {"role": "user", "content": "hello"}
HEAD = {"type": "session", "version": 3, "id": "s"}
#: A file of each kind.
FILES: dict[str, list[Raw]] = {
    "openclaw": [HEAD, {"type": "message", "id": "a", "parentId": None, "message": SAID}],
    "pi": [HEAD | {"provider": "x"}, {"type": "message", "message": SAID}],
    "claude-code": [{"type": "user", "uuid": "u", "sessionId": "s", "message": SAID}],
    "codex": [
        {"type": "session_meta", "payload": {"id": "t"}},
        {"type": "response_item", "payload": {"type": "message", **SAID}},
    ],
    "chatgpt": [{"id": "c", "mapping": {"n": {"id": "n", "message": None, "parent": None}}}],
    "jsonl": [SAID],
}
#: Kinds under which a file may be read as well, by the kind that it is.
ALSO = {"openclaw": {"pi", "jsonl"}, "pi": {"openclaw", "jsonl"}, "jsonl": {"openclaw", "pi"}}


def written(path: Path, records: list[Raw]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_under_every_name(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path / "a.jsonl", FILES[kind])
    refused = {named: detect_other_kind(file, named) for named in KINDS}
    assert refused == {named: None if named in {kind, *ALSO.get(kind, ())} else kind for named in KINDS}


def test_a_session_in_which_nothing_was_said_yet_is_of_both_kinds(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", [HEAD])
    assert (detect_other_kind(file, "pi"), detect_other_kind(file, "openclaw")) == (None, None)


@pytest.mark.parametrize("more", [{"uuid": "u"}, {"sessionId": "s", "type": "log"}, {"mapping": {}}])
def test_plain_messages_may_stand_in_any_envelope(tmp_path: Path, more: Raw) -> None:
    assert detect_other_kind(written(tmp_path / "a.jsonl", [{"message": SAID} | more]), "jsonl") is None


def test_a_file_of_no_known_kind_may_be_anything(tmp_path: Path) -> None:
    for text in ("", "{half", "[1, 2]", '{"a": 1}\n', "\x89PNG"):
        (tmp_path / "a.jsonl").write_text(text)
        assert {detect_other_kind(tmp_path / "a.jsonl", kind) for kind in KINDS} == {None}
    assert detect_other_kind(tmp_path / "gone.jsonl", "codex") is None

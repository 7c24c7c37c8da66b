"""ChatGPT's export: a lane for each conversation, its path up to the current node."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.formats import decode, encode
from lossless.ingest.transcripts import RecordPosition, TranscriptHeader, chatgpt, open_transcript
from tests.ingest.transcripts_kit import entries, ids

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.ingest.transcripts import Transcript


def node(id: str, parent: str | None, role: str = "user", content: Any = None, **more: Any) -> dict[str, Any]:
    body = {"content_type": "text", "parts": [id]} if content is None else content
    message = {"id": id, "author": {"role": role, "name": more.pop("name", None)}, "content": body, **more}
    return {"id": id, "parent": parent, "message": message, "children": []}


def conversation(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    mapping = {"r": {"id": "r", "parent": None, "message": None}, **{node["id"]: node for node in nodes}}
    return {"mapping": mapping, "current_node": current or nodes[-1]["id"], **more}


def exported(folder: Path, *conversations: dict[str, Any]) -> Transcript:
    path = folder / "conversations.json"
    path.write_text(json.dumps(conversations))
    return open_transcript(path)


def test_every_conversation_is_a_lane_with_a_title(tmp_path: Path) -> None:
    first = conversation(node("a", "r", create_time=1767355200.5), id="one", title="First", create_time=1767355200)
    found = exported(tmp_path, first, conversation(node("a", "r"), node("b", "a"), title="Second"))
    assert (found.kind, found.is_array, found.lanes()) == ("chatgpt", True, ["one", "2"])
    began = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert found.lane_header("one") == TranscriptHeader("one", started_at=began, title="First")
    assert found.lane_header("2").title == "Second"
    assert (ids(found.path("one")), ids(found.path("2")), ids(found.path())) == ("ra", "rab", "")
    root, said = entries(found.path("one"))
    assert (root.kind, root.message) == ("node", None)
    assert (said.message, said.created_at) == ({"role": "user", "content": "a"}, began.replace(microsecond=500_000))


@pytest.mark.parametrize(
    ("edges", "current", "path"),
    [
        ("ar ba cb", "c", "rabc"),
        ("ar ba ca db", "d", "rabd"),
        ("ar ba ca db", "c", "rac"),
        ("cb ba ar", "c", "rabc"),
        ("ar ba cb", "b", "rab"),
    ],
)
def test_the_path_ends_at_the_current_node(tmp_path: Path, edges: str, current: str, path: str) -> None:
    nodes = [node(edge[0], edge[1]) for edge in edges.split()]
    found = exported(tmp_path, conversation(*nodes, current=current, id="x"))
    assert ids(found.path("x")) == path
    assert sorted(ids(found.appended())) == sorted({"r", *edges.replace(" ", "")})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (node("a", "r", content={"content_type": "text", "parts": ["x", " y\n"]}), {"content": "x\n y\n"}),
        (
            node("a", "r", "assistant", recipient="all", metadata={"model_slug": "gpt-4o"}),
            {"role": "assistant", "content": "a", "model": "gpt-4o"},
        ),
        (
            node("a", "r", "assistant", {"content_type": "code", "language": "py", "text": "1"}, recipient="python"),
            {"role": "assistant", "content": "1", "recipient": "python", "language": "py"},
        ),
        (
            node("a", "r", "tool", {"content_type": "execution_output", "text": "2"}, name="python"),
            {"role": "tool", "content": "2", "toolName": "python"},
        ),
        (
            node("a", "r", content={"content_type": "multimodal_text", "parts": [{"asset_pointer": "p"}, "see", ""]}),
            {"content": [{"asset_pointer": "p", "type": "unknown"}, {"type": "text", "text": "see"}]},
        ),
        (
            node("a", "r", "tool", {"content_type": "tether_quote", "text": "words", "url": "u"}),
            {"role": "tool", "content": [{"content_type": "tether_quote", "text": "words", "url": "u"}]},
        ),
        (
            node("a", "r", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}),
            {"role": "assistant", "content": [{"content_type": "thoughts", "thoughts": [{"content": "hm"}]}]},
        ),
    ],
)
def test_what_a_node_says(tmp_path: Path, made: dict[str, Any], expected: dict[str, Any]) -> None:
    found = exported(tmp_path, conversation(made, id="x"))
    message: Any = entries(found.path("x"))[-1].message
    for block in message["content"] if isinstance(message["content"], list) else []:
        if block["type"] == block.get("content_type"):
            del block["type"]
    assert message == {"role": "user", **expected}


def test_messages_come_back_as_they_were_built(tmp_path: Path) -> None:
    parts = [{"content_type": "image_asset_pointer", "asset_pointer": "p"}, "see", 7]
    made = [
        node("a", "r", content={"content_type": "multimodal_text", "parts": parts}),
        node("b", "a", "tool", {"content_type": "tether_quote", "text": "words", "url": "u"}, name="browser"),
        node("c", "b", "assistant", {"content_type": "never_seen", "x": [1]}),
    ]
    found = exported(tmp_path, conversation(*made, id="x"))
    decoded = [decode(entry.message) for entry in entries(found.path("x")) if entry.message is not None]
    assert [message.content for message in decoded][:2] == ["see", "words"]
    assert all(encode([message], message.format) == [message.original] for message in decoded)


def test_what_says_nothing_is_opaque(tmp_path: Path) -> None:
    empty = node("a", "r", "system", {"content_type": "text", "parts": [""]})
    odd = node("b", "a", "critic")
    found = exported(tmp_path, conversation(empty, odd, id="x"), {"no": "mapping"})
    assert [entry.record for entry in entries(found.path("x"))][1:] == [empty, odd]
    assert [entry.record for entry in entries(found.path())] == [{"no": "mapping"}]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdefr")), max_size=8), st.sampled_from("abcz"))
def test_every_node_comes_once_whatever_its_parents(edges: list[tuple[str, str]], current: str) -> None:
    record = conversation(node("a", "r"), *(node(*edge) for edge in edges), current=current)
    found = [entry.id for entry in chatgpt.entries(record, RecordPosition(1, 0, 0))]
    assert sorted(found, key=str) == sorted(record["mapping"])
    if current in record["mapping"]:
        assert found[-1] == current

"""Records of any shape are entries of every kind, and a file of any bytes is read or refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.ingest.transcripts import KINDS, BadLine, entries_from_objects, open_transcript

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [
    "type",
    "role",
    "content",
    "message",
    "id",
    "parentId",
    "uuid",
    "parentUuid",
    "logicalParentUuid",
    "isSidechain",
    "agentId",
    "sessionId",
    "timestamp",
    "createdAt",
    "created_at",
    "payload",
    "record_type",
    "instructions",
    "call_id",
    "name",
    "output",
    "mapping",
    "current_node",
    "parent",
    "author",
    "content_type",
    "parts",
    "text",
    "messages",
    "traj",
    "conversation",
    "entryId",
    "seq",
    "title",
    "summary",
    "cwd",
    "version",
    "metadata",
    "create_time",
]
WORDS = [
    "user",
    "assistant",
    "tool",
    "toolResult",
    "session",
    "message",
    "session_meta",
    "response_item",
    "function_call",
    "function_call_output",
    "reasoning",
    "summary",
    "session_info",
    "text",
    "code",
    "multimodal_text",
    "tool_result",
    "a",
    "b",
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS) | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=2), inner, max_size=5)
    ),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=7)
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)


@QUIET
@given(records=st.lists(RECORDS, max_size=4), is_array=st.booleans())
@pytest.mark.parametrize("kind", KINDS)
def test_no_record_is_too_odd(tmp_path: Path, kind: str, records: list[Any], is_array: bool) -> None:
    path = tmp_path / "odd.jsonl"
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text((json.dumps(records) if is_array else lines).replace("Infinity", "0"))
    found = open_transcript(path, kind)
    listed = list(found.appended())
    assert not [entry for entry in listed if isinstance(entry, BadLine)]
    on_paths = [entry for lane in [None, *found.lanes()] for entry in found.path(lane)]
    assert len(on_paths) <= len(listed) == sum(found.counts().values())
    for entry in listed:
        assert isinstance(entry, BadLine) or entry.message is None or not entry.record


@QUIET
@given(records=st.lists(RECORDS, max_size=4))
def test_any_objects_are_entries(records: list[Any]) -> None:
    assert len(entries_from_objects(records)) == len(records)


@QUIET
@given(st.binary(max_size=60) | st.text(alphabet='[]{}",: \n1a\\é').map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(data)
    try:
        found = open_transcript(path)
    except BadInput:
        return
    assert len(list(found.path())) <= len(list(found.appended()))

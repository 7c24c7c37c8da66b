"""Files in which anything may stand: they are read as far as they can be, or refused in our own words."""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import LosslessError
from lossless.store.archive import Archive
from lossless.store.bundles.other_programs import open_claw
from lossless.transfer.archive_file import import_archive
from lossless.transfer.lossless_claw import TransferOptions, import_lossless_claw
from lossless.transfer.remnic import export_remnic, import_remnic

from . import claws
from .claws import real
from .moves import to_file, to_remnic

ODD = st.sampled_from(["abc", "", None, -1, 2**62, 1.5, b"\xff\x00", b"text", "9999-99-99", "[1]", "{", '{"a": 1}'])
CLAW = [
    "conversations.session_id", "conversations.session_key", "conversations.active", "conversations.created_at",
    "messages.seq", "messages.role", "messages.content", "messages.token_count", "messages.created_at",
    "messages.identity_hash", "message_parts.ordinal", "message_parts.part_type", "message_parts.metadata",
    "message_parts.tool_input", "summaries.kind", "summaries.depth", "summaries.content", "summaries.token_count",
    "summaries.earliest_at", "summaries.file_ids", "summary_messages.ordinal", "summary_parents.parent_summary_id",
    "context_items.message_id", "context_items.item_type", "large_files.storage_uri", "large_files.byte_size",
]  # fmt: skip
REMNIC = [
    "lcm_messages.turn_index", "lcm_messages.role", "lcm_messages.content", "lcm_messages.token_count",
    "lcm_messages.created_at", "lcm_messages.metadata", "lcm_message_parts.payload", "lcm_message_parts.kind",
    "lcm_message_parts.ordinal", "lcm_summary_nodes.depth", "lcm_summary_nodes.parent_id",
    "lcm_summary_nodes.summary_text", "lcm_summary_nodes.token_count", "lcm_summary_nodes.msg_start",
    "lcm_summary_nodes.created_at", "lcm_x_source_rows.value", "lcm_x_source_rows.id", "lcm_x_edges.source_id",
    "lcm_x_summary_messages.message_id", "lcm_compaction_events.tokens_before",
]  # fmt: skip
METADATA = st.dictionaries(
    st.sampled_from(["conversation_id", "source", "source_seq", "identity_hash", "title"]),
    st.sampled_from(["lossless-claw", "x", 1, -3, None, [1], {"a": 1}, 1.5, 2**70]),
)


def damage(path: Path, place: str, value: object) -> None:
    """What a broken program does to one row."""
    table, _, column = place.partition(".")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        at = (
            "rowid = (SELECT min(rowid) FROM"
            if not table.startswith("lcm_x_")
            else "kind IS NOT NULL AND '' = (SELECT '' FROM"
        )
        if table in ("lcm_x_edges", "lcm_x_summary_messages"):
            at = "'' = (SELECT '' FROM"
        with suppress(apsw.ConstraintError):  # what the database itself refuses need not be tried
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {at} {table})", (value,))


def refused_or_done(act: Any) -> None:
    """Either it works, or the error is ours."""
    with suppress(LosslessError):
        act()


@settings(max_examples=15)
@given(places=st.lists(st.tuples(st.sampled_from(CLAW), ODD), min_size=1, max_size=2))
def test_a_lossless_claw_file(places: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = real(folder / "lcm.db", [claws.tree_of_24()])
        claws.run(source, "INSERT INTO large_files (file_id, conversation_id, storage_uri) VALUES ('file_1', 1, 'x')")
        for place, value in places:
            damage(source, place, value)
        with Archive.open(":memory:") as archive:
            refused_or_done(lambda: import_lossless_claw(source, archive, None))
        with open_claw(source) as theirs:
            refused_or_done(lambda: export_remnic(theirs, None, folder / "memory.sqlite"))


@settings(max_examples=15)
@given(places=st.lists(st.tuples(st.sampled_from(REMNIC), ODD), min_size=1, max_size=2), metadata=METADATA)
def test_a_remnic_file(places: list[tuple[str, object]], metadata: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        memory = folder / "memory.sqlite"
        to_remnic(real(folder / "lcm.db", [claws.tree_of_24()]), memory)
        damage(memory, "lcm_messages.metadata", json.dumps(metadata))
        for place, value in places:
            damage(memory, place, value)
        with Archive.open(":memory:") as archive:
            refused_or_done(lambda: import_remnic(memory, archive, None, TransferOptions()))


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["x", "", None, -1, 2**70, 1.5, True, [], [1], [{}], {}, {"base64": "?"}, {"base64": 1}, [[1]]]
)


@settings(max_examples=20)
@given(data=st.data())
def test_a_file_of_lines(data: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, file = real(folder / "lcm.db", [claws.tree_of_24()]), folder / "all.jsonl"
        claws.run(source, "INSERT INTO large_files (file_id, conversation_id, storage_uri) VALUES ('file_1', 1, 'x')")
        to_file(source, file)
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        line = data.draw(st.sampled_from(lines[1:-1]))
        field = data.draw(st.sampled_from([name for name in line if name != "type"]))
        line[field] = data.draw(VALUES)
        line |= data.draw(
            st.dictionaries(st.sampled_from(["data", "part", "odd", "skeleton", "format"]), VALUES, max_size=1)
        )
        raw = [json.dumps(one).encode() + b"\n" for one in lines]
        end = lines[-1] | {"sha256": hashlib.sha256(b"".join(raw[:-1])).hexdigest()}
        file.write_bytes(b"".join([*raw[:-1], json.dumps(end).encode()]))
        with Archive.open(":memory:") as archive:
            refused_or_done(lambda: import_archive(file, archive, None, TransferOptions()))

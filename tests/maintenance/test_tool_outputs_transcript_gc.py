"""Old answers of tools in a transcript give way to their short form, a few at a time, if everybody agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.maintenance.surgery.tool_outputs import (
    MAX_REPLACEMENTS,
    EntryReplacement,
    plan_replacements,
)
from tests.maintenance.keeping import dumped, entry, header, open_engine, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lossless.maintenance.rotate import RecordedMessage

SESSION = lossless.Session(key="agent:main:main", id="run-1")
LONG = "a line of the harbour's log\n" * 300


def records(count: int) -> list[dict[str, Any]]:
    """Turns with a long answer of a tool each."""
    found = [header()]
    for n in range(count):
        call = {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "read", "arguments": {}}]}
        answer = {
            "role": "toolResult",
            "toolCallId": f"c{n}",
            "toolName": "read",
            "isError": False,
            "content": [{"type": "text", "text": f"{n} {LONG}"}],
        }
        for id_, message in ((f"u{n}", {"role": "user", "content": f"read {n}"}), (f"a{n}", call), (f"r{n}", answer)):
            found.append(entry(id_, found[-1]["id"] if len(found) > 1 else None, message))
    return found


def said(found: Sequence[dict[str, Any]]) -> list[RecordedMessage]:
    return [(record["id"], record["message"]) for record in found if "message" in record]


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with open_engine(path, transcript_gc_enabled=True) as opened:
        opened.append(SESSION, [lossless.Incoming(message, id_) for id_, message in said(records(16))])
        while opened.compact(SESSION, force=True, budget=2_000).compacted:
            pass
        yield opened


def test_the_oldest_answers_that_are_folded_are_replaced(engine: lossless.Engine) -> None:
    work = plan_replacements(engine.archive, 1, said(records(16)))
    assert [item.entry_id for item in work] == [f"r{n}" for n in range(MAX_REPLACEMENTS)]
    first = work[0]
    assert first.message["toolCallId"] == "c0"
    assert first.message["isError"] is False
    content: Any = first.message["content"]
    assert content[0]["text"].startswith("[LCM Tool Output: file_")
    assert first.bytes_freed > 5_000
    assert engine.describe(content[0]["text"].split()[3])


def test_answers_in_the_context_and_calls_that_occur_twice_stay(engine: lossless.Engine) -> None:
    found = said(records(16))
    twice = [*found, ("again", found[2][1])]
    assert "r0" not in {item.entry_id for item in plan_replacements(engine.archive, 1, twice)}
    newest = {item.entry_id for item in plan_replacements(engine.archive, 1, found, limit=100)}
    assert "r15" not in newest, "it is in the fresh tail"
    assert plan_replacements(engine.archive, 1, []) == []
    assert plan_replacements(engine.archive, 99, found) == []


def test_what_is_short_already_is_not_replaced_again(engine: lossless.Engine) -> None:
    found = {item[0]: item for item in said(records(16))}
    for item in plan_replacements(engine.archive, 1, list(found.values())):
        found[item.entry_id] = (item.entry_id, item.message)
    after = plan_replacements(engine.archive, 1, list(found.values()))
    assert not {item.entry_id for item in after} & {f"r{n}" for n in range(MAX_REPLACEMENTS)}


@pytest.mark.parametrize(("enabled", "approved"), [(False, True), (True, False), (False, False)])
def test_nothing_happens_unless_all_agree(
    engine: lossless.Engine, path: Path, tmp_path: Path, enabled: bool, approved: bool
) -> None:
    asked: list[object] = []

    def rewrite(work: Sequence[EntryReplacement]) -> int:
        asked.append(work)
        return len(work)

    file = tmp_path / "run-1.jsonl"
    file.write_bytes(dumped(records(16)))
    assert plan_replacements(engine.archive, 1, said(records(16)))
    with open_engine(path, transcript_gc_enabled=enabled) as other:
        report = other.rotation.collect(SESSION, file, rewrite, approved=approved)
    assert (report.asked, report.changed, asked) == (0, 0, [])
    assert report.reason


def test_the_host_rewrites_and_the_archive_knows_the_entries_still(
    engine: lossless.Engine, path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run-1.jsonl"
    there = records(16)
    file.write_bytes(dumped(there))
    before = engine.archive.listings.counts().messages

    def rewrite(work: Sequence[EntryReplacement]) -> int:
        by_id = {item.entry_id: item.message for item in work}
        for record in there:
            if record["id"] in by_id:
                record["message"] = by_id[record["id"]]
        file.write_bytes(dumped(there))
        return len(by_id)

    report = engine.rotation.collect(SESSION, file, rewrite, approved=True)
    assert (report.asked, report.changed) == (MAX_REPLACEMENTS, MAX_REPLACEMENTS)
    assert report.bytes_freed > MAX_REPLACEMENTS * 5_000
    engine.append(SESSION, [lossless.Incoming(message, id_) for id_, message in said(there)])
    assert engine.archive.listings.counts().messages == before
    assert problems(engine) == []
    assert engine.rotation.collect(SESSION, tmp_path / "none", rewrite, approved=True).reason
    with open_engine(path) as off:
        assert off.rotation.collect(SESSION, file, rewrite, approved=True).reason == "transcriptGcEnabled is off"

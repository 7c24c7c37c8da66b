"""One file for a whole archive: it says when it is damaged, and everything comes back exactly."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless import formats
from lossless.errors import BadInput
from lossless.maintenance.verify import verify_archive
from lossless.model.context import NewSummary, SummaryItem
from lossless.model.identity import fingerprint, identity_hash, words_digest
from lossless.store.archive import Archive
from lossless.store.messages import NewMessage
from lossless.store.versions import Version
from lossless.transfer.archive_file import import_archive, is_archive
from lossless.transfer.lossless_claw import TransferOptions

from .claws import rows, run
from .moves import bring, nothing_new, said, to_file, vault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")
#: Tables that must come back row for row, numbers included.
TABLES = (
    "conversations", "messages", "message_parts", "message_extras", "summaries", "summary_messages", "summary_parents",
    "context_items", "context_log", "hidden_items", "turn_keys", "last_windows", "ingest_state", "focus_briefs",
    "focus_brief_sources", "stale_summaries",
    "conversation_compaction_maintenance", "conversation_compaction_telemetry", "conversation_bootstrap_state",
)  # fmt: skip


def reword(engine: lossless.Engine, message_id: int, *texts: str) -> None:
    """Give a message other words, one after the other, and keep what a host might make of it."""
    archive, now = engine.archive, datetime(2026, 5, 2, tzinfo=UTC)
    conversation = archive.conversations.get(archive.messages.get(message_id).conversation_id)
    with archive.writing():
        for text in texts:
            said = formats.decode({"role": "user", "content": text})
            new = NewMessage(said, identity_hash("user", text), fingerprint(said), now)
            archive.versions.revise(conversation, message_id, new, now)
        cleared = formats.decode({"role": "user", "content": "[cleared]"})
        archive.versions.keep(message_id, cleared, words_digest(cleared), "lesser", now)
        archive.summaries.mark_stale([message_id], now)


def wordings(path: Path) -> list[tuple[Any, ...]]:
    """All versions of an archive: whose, kind, digest, time and text, in their order."""
    with Archive.open(path) as archive:
        found = [one for one in archive.versions.each() if isinstance(one, Version)]
        assert verify_archive(archive).ok
    return [(one.message_id, one.kind, one.digest, one.at, one.message) for one in found]


def fill(path: Path) -> None:
    """An archive with everything in it: folds, hidden items, pins, files, briefs, keys, a second conversation."""
    settings = lossless.Settings(
        large_files_dir=str(vault(path).root), leaf_chunk_tokens=600, leaf_min_fanout=2, condensed_min_fanout=2,
        fresh_tail_count=4,
    )  # fmt: skip
    with lossless.open(path, settings, background=False) as engine:
        for n in range(40):
            body = {
                "role": ("user", "assistant")[n % 2],
                "content": f"line {n} " + "of weather and wind " * 20,
                "mood": n,
            }
            engine.append(
                SESSION, [lossless.Incoming(body, f"e{n}", datetime(2026, 5, 1, 10, n, tzinfo=UTC))], key=f"k{n}"
            )
        engine.append(SESSION, [{"role": "user", "content": f"<file name='a.txt'>{'data ' * 40_000}</file>"}])
        engine.compact(SESSION, budget=2_000, force=True)
        leaves = [item for item in engine.archive.context.items(1) if isinstance(item, SummaryItem)][:2]
        with engine.archive.writing():
            now = datetime(2026, 5, 2, tzinfo=UTC)
            depth = 1 + max(one.depth for one in engine.archive.summaries.many([leaf.summary_id for leaf in leaves]))
            engine.archive.summaries.insert(1, leaves, NewSummary("sum_top", depth, "wind", 1, "model-a"), now)
            engine.archive.context.replace(1, leaves, "sum_top", now)
        reword(engine, 3, "line", "line 2 of", "line 2 of weather")
        engine.pin(SESSION, "never forget 🦀")
        engine.new(SESSION)
        window = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        engine.sync(lossless.Session(key="other"), window)
        engine.sync(lossless.Session(key="other"), [window[0], {"role": "assistant", "content": "regenerated"}])
    run(
        path,
        "INSERT INTO focus_briefs (brief_id, conversation_id, prompt, content, status) "
        "VALUES ('focus_1', 1, 'p', 'c', 'active')",
        "INSERT INTO focus_brief_sources (brief_id, summary_id, role) VALUES ('focus_1', 'sum_top', 'cited')",
    )


@pytest.fixture
def full(tmp_path: Path) -> Path:
    path = tmp_path / "full.db"
    fill(path)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "here" / "lcm.db"


def table(path: Path, name: str) -> list[tuple[Any, ...]]:
    return sorted(rows(path, f"SELECT * FROM {name}"), key=repr)


@pytest.mark.parametrize("beside", [False, True])
def test_everything_comes_back(full: Path, target: Path, tmp_path: Path, beside: bool) -> None:
    file = tmp_path / "all.jsonl"
    report = to_file(full, file, files_dir=str(tmp_path / "beside") if beside else None)
    assert (report.conversations, report.messages, report.files_copied) == (2, 44, 1)
    assert is_archive(file)
    bring("archive", file, target)
    for name in TABLES:
        assert table(target, name) == table(full, name), name
        assert table(full, name) or name.startswith("conversation_"), name
    assert wordings(target) == wordings(full)
    assert [one[1] for one in wordings(target)] == ["earlier", "earlier", "earlier", "lesser"]
    assert rows(target, "SELECT content FROM pins") == [("never forget 🦀",)]
    log = "SELECT conversation_id, at, action, cause, removed, added FROM context_log ORDER BY conversation_id, log_id"
    assert rows(target, log) == rows(full, log)
    for name in ("pins", "context_log", "former_summaries"):
        assert table(target, name) == table(full, name), name
    ((place,),) = rows(target, "SELECT storage_uri FROM large_files")
    assert place.startswith(str(vault(target).root))
    assert nothing_new(bring("archive", file, target))


def test_a_file_of_a_file_is_the_same(full: Path, target: Path, tmp_path: Path) -> None:
    to_file(full, tmp_path / "1.jsonl")
    bring("archive", tmp_path / "1.jsonl", target)
    to_file(target, tmp_path / "2.jsonl")
    first, second = (
        [json.loads(line) for line in (tmp_path / name).read_bytes().splitlines()] for name in ("1.jsonl", "2.jsonl")
    )
    for line in (*first, *second):
        for name in ("storage_uri", "createdAt", "sha256"):
            line.pop(name, None)
    assert first == second


def test_into_an_archive_that_has_other_things(full: Path, target: Path, tmp_path: Path) -> None:
    with lossless.open(target, background=False) as engine:
        engine.append(lossless.Session(key="mine"), [{"role": "user", "content": "here before"}] * 3)
    to_file(full, tmp_path / "all.jsonl")
    report = bring("archive", tmp_path / "all.jsonl", target)
    assert report.conversations_inserted == 2
    assert rows(target, "SELECT count(*) FROM messages") == [(47,)]
    mine = {name: [row for row in found if row[0] != "x"] for name, found in said(full).items()}
    theirs = said(target)
    for name in ("summaries", "leaves", "sources"):
        assert theirs[name] == mine[name]
    assert nothing_new(bring("archive", tmp_path / "all.jsonl", target))


def test_messages_carry_their_originals(full: Path, tmp_path: Path) -> None:
    to_file(full, tmp_path / "all.jsonl", sessions=frozenset(["agent:main:main"]))
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    assert (lines[0]["type"], lines[0]["version"]) == ("lossless-archive", 1)
    said_first = next(line for line in lines if line["type"] == "message")
    assert said_first["original"] == {"role": "user", "content": said_first["content"], "mood": 0}
    assert lines[-1]["type"] == "end"
    assert lines[-1]["counts"]["message"] == 41
    before = b"".join((tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)[:-1])
    assert lines[-1]["sha256"] == hashlib.sha256(before).hexdigest()


def _without_last(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _one_gone(lines: list[bytes]) -> list[bytes]:
    return lines[:3] + lines[4:]


def _one_changed(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"weather", b"whether") for line in lines]


def _cut(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[5][:40]]


def _more(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[2]]


def _newer(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]]


def _headless(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def _stray(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], *lines[1:]]


def _empty(_: list[bytes]) -> list[bytes]:
    return []


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (_without_last, "not whole"),
        (_one_gone, "damaged"),
        (_one_changed, "damaged"),
        (_cut, "line 6 .*not valid JSON"),
        (_more, "after the end"),
        (_newer, "version 2"),
        (_headless, "not an archive file"),
        (_stray, "line 2 .*out of place"),
        (_empty, "not whole"),
    ],
)
def test_a_damaged_file_changes_nothing(
    full: Path, target: Path, tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], why: str
) -> None:
    file = tmp_path / "all.jsonl"
    to_file(full, file)
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))
    with Archive.open(target) as archive:
        with pytest.raises(BadInput, match=why):
            import_archive(file, archive, None, TransferOptions())
        assert archive.listings.counts().conversations == 0


@pytest.mark.parametrize(
    "values", ['{"seq": "x"}', '{"parts": [1]}', '{"content": null}', '{"type": "odd"}', "[]", "7"]
)
def test_lines_that_are_wrong_but_well_counted(full: Path, target: Path, tmp_path: Path, values: str) -> None:
    """Whoever writes such a file by hand is told what is wrong."""
    file = tmp_path / "all.jsonl"
    to_file(full, file)
    lines = file.read_bytes().splitlines(keepends=True)
    given = json.loads(values)
    lines[2] = json.dumps(json.loads(lines[2]) | given if isinstance(given, dict) else given).encode() + b"\n"
    end = json.loads(lines[-1]) | {"sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    file.write_bytes(b"".join([*lines[:-1], json.dumps(end).encode()]))
    with Archive.open(target) as archive, pytest.raises(BadInput, match="line 3 of the archive file"):
        import_archive(file, archive, None, TransferOptions())


def test_nothing_is_overwritten_by_accident(full: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("mine")
    with pytest.raises(BadInput, match="already exists"):
        to_file(full, file)
    assert file.read_text() == "mine"
    to_file(full, file, overwrite=True)
    assert is_archive(file)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []

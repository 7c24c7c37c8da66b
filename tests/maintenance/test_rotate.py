"""A transcript becomes its tail only when all of it is safe, and never anything in between."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.compaction.summariser import breaker_key
from lossless.maintenance import rotate as rotation
from lossless.maintenance.rotate import (
    NOTHING_TO_REMOVE,
    STATE_KINDS,
    RecordedMessage,
    UnsafeTranscript,
    rotate_transcript,
    shorten_transcript,
    why_unstored,
)
from lossless.model.context import MessageItem, fresh_tail_start
from lossless.settings.model_rules import Route
from lossless.store.state import LedgerRow
from lossless.testing import Scripted
from tests.maintenance.keeping import (
    NOW,
    dumped,
    entry,
    header,
    open_engine,
    parsed,
    problems,
    settings,
    transcript,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")
TAIL = 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sessions" / "run-1.jsonl"
    path.parent.mkdir()
    path.write_bytes(dumped(transcript(20)))
    path.chmod(0o640)
    return path


def ids(data: bytes) -> list[str]:
    return [record["id"] for record in parsed(data)]


def all_stored(_: Iterable[RecordedMessage]) -> None:
    return None


# --- what stays ---


def test_the_tail_stays_with_the_header_and_the_latest_states() -> None:
    records = transcript(6)
    records.insert(4, entry("think", "e1", type="thinking_level_change", thinkingLevel="low"))
    records.insert(5, entry("model2", "think", type="model_change", provider="fake", modelId="two"))
    records.insert(6, entry("note", "model2", type="custom", data={"x": 1}))
    for before, after in pairwise(records[1:]):
        after["parentId"] = before["id"]
    records += [entry("after", "e5", type="custom"), entry("info", "after", type="session_info", name="late")]
    short, kept, dropped = shorten_transcript(dumped(records), 2)
    found = parsed(short)
    assert [record["id"] for record in found] == ["run-1", "think", "model2", "e4", "e5"]
    assert [record.get("parentId") for record in found] == [None, None, "think", "model2", "e4"]
    assert found[0] == records[0]
    assert found[-1] == records[-3], "a line whose parent stays is not touched"
    assert (kept, sum(record.role is not None for record in dropped)) == (2, 4)


def test_states_inside_the_tail_stay_and_those_behind_it_go() -> None:
    records = [
        *transcript(4),
        entry("m2", "e3", type="model_change"),
        entry("e4", "m2", {"role": "user", "content": "x"}),
    ]
    records += [entry("m3", "e4", type="model_change")]
    assert ids(shorten_transcript(dumped(records), 2)[0]) == ["run-1", "model", "e3", "m2", "e4"]


def test_the_newest_user_message_and_what_follows_stay_whatever_the_count() -> None:
    records = [header(), entry("u0", None, {"role": "user", "content": "old"})]
    records.append(entry("u1", "u0", {"role": "user", "content": "go"}))
    for n in range(8):
        call = {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {}}]}
        answer = {"role": "toolResult", "toolCallId": f"c{n}", "toolName": "ls", "content": []}
        records += [entry(f"a{n}", records[-1]["id"], call), entry(f"r{n}", f"a{n}", answer)]
    assert ids(shorten_transcript(dumped(records), 2)[0])[1] == "u1"


def test_a_tail_does_not_begin_with_an_answer_without_its_call() -> None:
    roles = ["user", "assistant", "toolResult", "toolResult", "assistant", "user"]
    records = [header()]
    for n, role in enumerate(roles):
        records.append(entry(f"e{n}", f"e{n - 1}" if n else None, {"role": role, "content": "x"}))
    assert ids(shorten_transcript(dumped(records), 3)[0])[1:] == ["e1", "e2", "e3", "e4", "e5"]


def test_a_branch_that_the_host_has_left_goes() -> None:
    records = transcript(4)
    records += [
        entry("b1", "e1", {"role": "user", "content": "another way"}),
        entry("b2", "b1", {"role": "assistant", "content": "yes"}),
    ]
    short, kept, dropped = shorten_transcript(dumped(records), 3)
    assert ids(short) == ["run-1", "model", "e1", "b1", "b2"]
    assert (kept, sum(record.role is not None for record in dropped)) == (3, 3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "not finished", id="empty"),
        pytest.param(dumped(transcript(3)[1:]), "no header", id="no header"),
        pytest.param(dumped(transcript(3))[:-1], "not finished", id="no line feed at the end"),
        pytest.param(dumped(transcript(3))[:-9] + b"\n", "cannot be read", id="half a line"),
        pytest.param(dumped([*transcript(3), header("x")]), "more than one", id="two headers"),
        pytest.param(dumped(transcript(3)) + b"[1]\n", "not an object", id="a list"),
    ],
)
def test_what_cannot_be_rewritten(data: bytes, why: str) -> None:
    with pytest.raises(UnsafeTranscript, match=why):
        shorten_transcript(data, 2)


_content = st.one_of(st.text(), st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.text()), max_size=2))
_kinds = st.sampled_from(["message", "message", "message", *STATE_KINDS, "custom", "compaction"])
_records = st.lists(
    st.tuples(_kinds, st.sampled_from(["user", "assistant", "toolResult", "odd"]), _content), max_size=30
)


@given(drawn=_records, count=st.integers(1, 12), ascii_=st.booleans())
def test_the_tail_is_the_fresh_tail_word_for_word(drawn: list[tuple[str, str, Any]], count: int, ascii_: bool) -> None:
    records = [header()]
    for n, (kind, role, content) in enumerate(drawn):
        message = {"role": role, "content": content, "n": 10**20, "f": 1.0} if kind == "message" else None
        records.append(entry(f"e{n}", f"e{n - 1}" if n else None, message, type=kind))
    data = b"".join(
        json.dumps(record, ensure_ascii=ascii_).encode("utf-8", "surrogatepass") + b"\n" for record in records
    )
    try:
        short, count_kept, _ = shorten_transcript(data, count)
    except UnsafeTranscript:
        assert not ascii_, "only a raw surrogate is no UTF-8"
        return
    found, said = parsed(short), [record for record in records if "message" in record]
    items = [
        MessageItem(n, n, "user" if r["message"]["role"] == "user" else "assistant", 0, n) for n, r in enumerate(said)
    ]
    start = fresh_tail_start(items, count)
    kept = [record for record in found if "message" in record]
    assert [record["message"] for record in kept] == [record["message"] for record in said[len(said) - len(kept) :]]
    assert len(kept) >= len(said) - start
    assert count_kept == len(kept)
    assert [record["parentId"] for record in found[1:]] == [None, *(record["id"] for record in found[1:-1])][
        : len(found) - 1
    ]
    assert {record["type"] for record in found[1:]} <= {"message", *STATE_KINDS}
    again, _, dropped = shorten_transcript(short, count)
    assert (again, dropped) == (short, []), "a second time changes nothing"


# --- the file ---


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(file: Path) -> None:
    report = rotate_transcript(file, TAIL, all_stored, checkpoint=lambda: file.stat().st_size)
    assert report.rotated
    assert ids(file.read_bytes()) == ["run-1", "model", "e16", "e17", "e18", "e19"]
    assert (report.kept_messages, report.dropped_messages) == (4, 16)
    assert report.size_after == report.checkpoint_size == file.stat().st_size
    assert report.bytes_removed == report.size_before - report.size_after > 0
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == [file.name]
    assert rotate_transcript(file, TAIL, all_stored).reason == NOTHING_TO_REMOVE


def test_a_plan_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    look = rotation.plan_rotation(file, TAIL)
    assert (look.rotated, look.reason, look.kept_messages, look.dropped_messages) == (False, None, 4, 16)
    assert file.read_bytes() == before


def test_a_link_is_not_followed(file: Path) -> None:
    link = file.with_name("link.jsonl")
    link.symlink_to(file)
    assert rotate_transcript(link, TAIL, all_stored).reason == "it is a link"
    assert rotate_transcript(file.parent, TAIL, all_stored).reason is not None
    assert "cannot be read" in str(rotate_transcript(file.with_name("none"), TAIL, all_stored).reason)
    assert link.is_symlink()


@pytest.mark.parametrize("step", ["reconcile", "compact"])
def test_each_step_can_refuse(file: Path, step: str) -> None:
    before, called = file.read_bytes(), []
    steps = {"reconcile": lambda: None, "compact": lambda: None, "backup": lambda: called.append("backup")}
    report = rotate_transcript(file, TAIL, all_stored, **steps | {step: lambda: "spend backoff"})  # type: ignore[arg-type]
    assert (report.rotated, report.reason) == (False, "spend backoff")
    assert (file.read_bytes(), called) == (before, [])


def test_the_order_of_the_steps(file: Path) -> None:
    called: list[str] = []

    def stored(messages: Iterable[RecordedMessage]) -> None:
        assert len(list(messages)) == 20
        called.append("stored")

    def step(name: str) -> None:
        called.append(name)

    def checkpoint() -> int:
        called.append("checkpoint")
        return len(parsed(file.read_bytes()))

    report = rotate_transcript(
        file,
        TAIL,
        stored,
        reconcile=lambda: step("reconcile"),
        compact=lambda: step("compact"),
        keep=lambda records: step(f"keep {len(list(records))}"),
        backup=lambda: step("backup"),
        checkpoint=checkpoint,
    )
    assert report.checkpoint_size == 6
    assert called == ["reconcile", "compact", "backup", "stored", "keep 16", "checkpoint"]


def test_a_file_that_changes_meanwhile_is_left_alone(file: Path) -> None:
    def write_more(_: Iterable[RecordedMessage]) -> None:
        with file.open("ab") as more:
            more.write(dumped([entry("late", "e19", {"role": "user", "content": "late"})]))

    report = rotate_transcript(file, TAIL, write_more)
    assert (report.rotated, report.reason) == (False, "it changed meanwhile")
    assert ids(file.read_bytes())[-1] == "late"
    assert len(ids(file.read_bytes())) == 23
    assert os.listdir(file.parent) == [file.name]


def test_what_arrives_in_the_last_instant_is_carried_over(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, late = os.replace, dumped([entry("late", "e19", {"role": "user", "content": "late"})])

    def replace(source: Any, target: Any) -> None:
        with file.open("ab") as more:
            more.write(late)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert rotate_transcript(file, TAIL, all_stored).rotated
    assert ids(file.read_bytes())[-2:] == ["e19", "late"]


# --- is it stored? ---


def test_messages_are_known_by_entry_id_or_by_their_words(path: Path) -> None:
    with open_engine(path) as engine:
        report = engine.append(SESSION, [lossless.Incoming({"role": "user", "content": "one"}, "e1")])
        engine.append(SESSION, [{"role": "assistant", "content": "two"}, {"role": "assistant", "content": "two"}])
        assert report.conversation_id is not None
        unstored = partial(why_unstored, engine.archive, report.conversation_id)
        one, two = (
            ("e1", {"role": "user", "content": "one"}),
            ("x1", {"role": "assistant", "content": "two"}),
        )
        assert unstored([]) is None
        assert unstored([one, two, ("x2", two[1])]) is None
        assert "x3" in str(unstored([one, ("x3", {"role": "assistant", "content": "three"})]))
        assert unstored([two, two, two]) is not None, "said three times, stored twice"
        assert unstored([one, ("e9", one[1])]) is not None, "the same words again, under another id"
        assert unstored([("note", {"role": "assistant", "content": "", "stopReason": "error"})]) is None
        assert unstored([("broken", {"role": 7})]) is not None


# --- with an engine ---


@pytest.fixture
def engine(path: Path, file: Path) -> Iterable[lossless.Engine]:
    with open_engine(path) as opened:
        opened.bootstrap(SESSION, file)
        yield opened


def test_every_message_stays_reachable(engine: lossless.Engine, path: Path, file: Path) -> None:
    said = [record["message"]["content"] for record in parsed(file.read_bytes()) if "message" in record]
    report = engine.rotate(SESSION)
    assert report.rotated, report.reason
    assert report.path == file
    assert report.backup == path.with_name("lcm.db.rotate-latest.bak")
    assert report.checkpoint_size == file.stat().st_size
    conversation = engine.archive.conversations.find(SESSION)
    assert conversation is not None
    stored = [item.message.content for item in engine.archive.messages.in_order(conversation.id)]
    assert stored == said
    assert problems(engine) == []
    assert engine.archive.listings.counts().summaries > 0, "what left the file was folded"
    for n in (0, 7, 15):
        assert engine.grep(f"^{n}: ", mode="regex", session=SESSION).total == 1


def test_the_session_goes_on_after_a_rotation(engine: lossless.Engine, file: Path) -> None:
    assert engine.rotate(SESSION).rotated
    before = engine.archive.listings.counts().messages
    assert engine.bootstrap(SESSION, file).stored == 0
    with file.open("ab") as more:
        more.write(dumped([entry("e20", "e19", {"role": "user", "content": "and on"})]))
    assert engine.bootstrap(SESSION, file).stored == 1
    assert engine.archive.listings.counts().messages == before + 1
    assert problems(engine) == []
    assert engine.rotate(SESSION).dropped_messages == 1
    assert engine.rotate(SESSION).reason == NOTHING_TO_REMOVE


def test_what_was_written_since_the_last_turn_is_stored_first(engine: lossless.Engine, file: Path) -> None:
    more = [entry(f"n{n}", f"n{n - 1}" if n else "e19", {"role": "user", "content": words(n)}) for n in range(10)]
    with file.open("ab") as handle:
        handle.write(dumped(more))
    assert engine.rotate(SESSION).rotated
    assert engine.archive.listings.counts().messages == 30


@pytest.mark.parametrize(
    "case", ["unknown", "closed", "ignored", "blocked", "no transcript", "another file", "half a line"]
)
def test_unsafe_states_are_refused(engine: lossless.Engine, path: Path, file: Path, case: str) -> None:
    session, changed = SESSION, {}
    if case == "unknown":
        session = lossless.Session(key="agent:main:nobody")
    elif case == "ignored":
        changed = {"ignore_session_patterns": ("agent:**",)}
    elif case == "no transcript":
        engine.append(session := lossless.Session(key="other"), [{"role": "user", "content": "x"}])
    elif case == "another file":
        other = file.with_name("other.jsonl")
        other.write_bytes(dumped(transcript(9, "other")))
        file = other
    elif case == "half a line":
        file.write_bytes(file.read_bytes() + b'{"type": "mess')
    elif case == "blocked":
        with engine.archive.writing():
            engine.archive.ingest.block(1, "nothing in common", NOW)
    before = file.read_bytes()
    with open_engine(path, **changed) as opened:
        who = opened.archive.conversations.find(session)
        if case == "closed":
            opened.reset(SESSION)
        stale = who if case == "closed" and who else session
        report = opened.rotate(stale, None if case == "no transcript" else file)
    assert not report.rotated
    assert report.reason
    assert file.read_bytes() == before
    assert not path.with_name("lcm.db.rotate-latest.bak").exists()


def test_a_host_may_read_its_transcripts_itself(path: Path, file: Path) -> None:
    said = [record for record in parsed(file.read_bytes()) if "message" in record]
    with open_engine(path) as engine:
        engine.append(SESSION, [lossless.Incoming(said[0]["message"], said[0]["id"])])
        assert engine.rotate(SESSION, file).reason == "the conversation does not follow this transcript"
        assert "not in the archive" in str(engine.rotate(SESSION, file, reconcile=lambda: None).reason)

        def reconcile() -> None:
            engine.append(SESSION, [lossless.Incoming(record["message"], record["id"]) for record in said])

        report = engine.rotate(SESSION, file, reconcile=reconcile, checkpoint=lambda: 7)
        assert (report.rotated, report.checkpoint_size) == (True, 7)
        assert engine.archive.listings.counts().messages == 20
        assert problems(engine) == []


def test_an_open_breaker_and_a_resting_budget_are_refused(path: Path, file: Path) -> None:
    with lossless.open(path, settings(), Scripted(), clock=lambda: NOW, background=False) as engine:
        engine.bootstrap(SESSION, file)
        first = engine.loop.summariser.candidates()[0]
        key, later = breaker_key(first.provider, first.model), NOW + timedelta(minutes=5)
        with engine.archive.writing():
            engine.archive.guards.set_breaker(key, 5, later, NOW)
        assert engine.rotate(SESSION).reason == "breaker open"
        with engine.archive.writing():
            engine.archive.guards.set_breaker(key, 0, None, NOW)
            row = LedgerRow(0, "compaction:1", "backoff", NOW, later, None, "reserved")
            engine.archive.guards.add_entry(row)
        assert engine.rotate(SESSION).reason == "spend backoff"
        assert len(parsed(file.read_bytes())) == 22


def test_an_open_breaker_is_no_hindrance_while_another_model_may_be_asked(path: Path, file: Path) -> None:
    models = settings(summary_model="fake/one", fallback_providers=(Route("fake", "two"),))
    with lossless.open(path, models, clock=lambda: NOW, background=False) as engine:
        engine.bootstrap(SESSION, file)
        for model, reason in (("one", None), ("two", "breaker open")):
            with engine.archive.writing():
                engine.archive.guards.set_breaker(breaker_key("fake", model), 5, NOW + timedelta(minutes=5), NOW)
            assert engine.rotate(SESSION, dry_run=True).reason == reason


def test_refused_credentials_stop_a_rotation(path: Path, file: Path) -> None:
    def refuse(_: object) -> str:
        raise lossless.errors.ModelAuth("no")

    with lossless.open(path, settings(), refuse, clock=lambda: NOW, background=False) as engine:
        engine.bootstrap(SESSION, file, fold=False)
        assert engine.rotate(SESSION).reason == "auth failure"
        assert len(parsed(file.read_bytes())) == 22

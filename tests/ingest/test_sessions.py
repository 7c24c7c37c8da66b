"""Whose message it is, and whether it is kept at all: sessions, patterns, cron jobs, skip rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless import Session
from lossless.model.messages import Message
from tests.faults import SESSION, contents, problems

if TYPE_CHECKING:
    from pathlib import Path

Body = dict[str, Any]


def hello(text: str = "hello") -> list[Body]:
    return [{"role": "user", "content": text}]


def conversations(engine: lossless.Engine) -> list[tuple[Any, ...]]:
    return engine.archive.database.rows(
        "SELECT conversation_id, session_id, session_key, active, archive_cause FROM conversations ORDER BY 1"
    )


def test_a_key_resumes_under_another_run(engine: lossless.Engine) -> None:
    engine.append(Session(key="k", id="run-1"), hello())
    engine.append(Session(key="k", id="run-2"), hello("again"))
    assert conversations(engine) == [(1, "run-2", "k", 1, None)]
    assert contents(engine, Session(key="k")) == ["hello", "again"]


def test_a_run_without_a_key_takes_the_key_when_it_comes(engine: lossless.Engine) -> None:
    engine.append(Session(id="run-1"), hello())
    engine.append(Session(key="k", id="run-1"), hello("again"))
    assert conversations(engine) == [(1, "run-1", "k", 1, None)]


def test_a_run_of_another_key_is_another_conversation(engine: lossless.Engine) -> None:
    engine.append(Session(key="k", id="run-1"), hello())
    engine.append(Session(key="other", id="run-1"), hello())
    assert [row[1:3] for row in conversations(engine)] == [("run-1", "k"), ("run-1", "other")]


def test_a_key_alone_makes_a_run_of_its_own(engine: lossless.Engine) -> None:
    engine.append(Session(key="k"), hello())
    (_, session_id, key, active, _) = conversations(engine)[0]
    assert (key, active, len(session_id)) == ("k", 1, 36)


def test_a_session_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a key or an id"):
        Session()


def test_each_run_of_a_cron_job_is_a_conversation(engine: lossless.Engine) -> None:
    key = "agent:main:cron:nightly"
    for run in ("1", "1", "2"):
        engine.append(Session(key=key, id=run), hello(run))
    assert [row[1:] for row in conversations(engine)] == [("1", key, 0, "cron-rotation"), ("2", key, 1, None)]
    family = engine.archive.conversations.family(Session(key=key, id="2"))
    assert [conversation.session_id for conversation in family] == ["2"]


def test_the_family_of_a_key_begins_with_the_active_conversation(engine: lossless.Engine) -> None:
    engine.append(Session(key="k", id="1"), hello())
    engine.reset(Session(key="k", id="1"))
    engine.append(Session(key="k", id="2"), hello())
    family = engine.archive.conversations.family(Session(key="k"))
    assert [conversation.active for conversation in family] == [True, False]


@pytest.mark.parametrize(
    ("settings", "name", "reason"),
    [
        ({"ignore_session_patterns": ("agent:*:heartbeat",)}, "agent:main:heartbeat", "session excluded"),
        ({"ignore_session_patterns": ("agent:**",)}, "agent:main:a:b", "session excluded"),
        ({"stateless_session_patterns": ("*:subagent:*",)}, "main:subagent:7", "stateless session"),
        ({"enabled": False}, "agent:main:main", "lossless is switched off"),
    ],
)
def test_sessions_that_are_not_kept_say_why(settings: Any, name: str, reason: str, path: Path) -> None:
    with lossless.open(path, lossless.Settings(**settings), background=False) as engine:
        for verb in (engine.append, engine.sync):
            report = verb(Session(key=name), hello() * 2)
            assert [(skip.index, skip.reason) for skip in report.skipped] == [(0, reason), (1, reason)]
            assert (report.stored, report.conversation_id) == (0, None)
        assert conversations(engine) == []
        assert problems(engine) == []


def test_patterns_do_not_reach_over_colons(path: Path) -> None:
    settings = lossless.Settings(ignore_session_patterns=("agent:*",))
    with lossless.open(path, settings, background=False) as engine:
        assert engine.append(Session(key="agent:main:main"), hello()).stored == 1
        assert engine.append(Session(id="agent:main"), hello()).stored == 0


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "ping", "content": "x"}, "role 'ping' is not kept"),
        ({"role": "assistant", "content": [], "stopReason": "error"}, "an empty answer that ended with 'error'"),
        ({"role": "assistant", "content": "", "stopReason": "aborted"}, "an empty answer that ended with 'aborted'"),
        (
            {"role": "assistant", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone", "stopReason": "stop"},
            "the host's own runtime context",
        ),
        (Message("assistant", " ", stop_reason="error"), "an empty answer that ended with 'error'"),
    ],
)
def test_what_is_no_part_of_the_conversation_is_skipped_with_its_reason(
    engine: lossless.Engine, message: Any, reason: str
) -> None:
    for verb in (engine.append, engine.sync):
        report = verb(SESSION, [*hello(), message])
        assert [(skip.index, skip.reason) for skip in report.skipped] == [(1, reason)]
    assert set(contents(engine)) == {"hello"}
    assert problems(engine) == []


ANSWER: Body = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "It is 8443."}],
    "stopReason": "stop",
}
MIRROR: Body = {"role": "assistant", "content": "It is 8443.", "model": "delivery-mirror", "stopReason": "stop"}


@pytest.mark.parametrize("apart", [True, False], ids=["in two calls", "in one call"])
@pytest.mark.parametrize("verb", ["append", "sync"])
def test_the_note_of_a_delivery_is_no_second_answer(engine: lossless.Engine, verb: str, apart: bool) -> None:
    call = getattr(engine, verb)
    if apart:
        call(SESSION, [*hello(), ANSWER])
    report = call(SESSION, [MIRROR] if apart and verb == "append" else [*hello(), ANSWER, MIRROR])
    assert [skip.reason for skip in report.skipped] == ["a delivery note"]
    assert contents(engine) == ["hello", "It is 8443."]
    other = {"role": "assistant", "content": "It was delivered.", "model": "delivery-mirror", "stopReason": "stop"}
    assert engine.append(SESSION, [other]).stored == 1
    assert problems(engine) == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "", "stopReason": "stop"},
        {"role": "assistant", "content": "half an answ", "stopReason": "aborted"},
        {"role": "user", "content": ""},
        {"role": "user", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> is what I read"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": []},
        {"role": "user", "content": "\u3000\x85"},
    ],
)
def test_what_looks_empty_but_was_said_is_kept(engine: lossless.Engine, message: Body) -> None:
    report = engine.append(SESSION, [message])
    assert (report.stored, report.skipped) == (1, ())
    assert engine.archive.messages.get(report.message_ids[0]).message.original == message
    assert problems(engine) == []


def test_nothing_at_all_is_no_trouble(engine: lossless.Engine) -> None:
    assert engine.append(SESSION, []).stored == engine.sync(SESSION, []).stored == 0
    engine.append(SESSION, hello())
    report = engine.sync(SESSION, [])
    assert (report.stored, report.abandoned) == (0, 0)
    assert contents(engine) == ["hello"]
    assert problems(engine) == []

"""What hosts write for their own use is recognised, and nothing that a person might say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.formats import decode
from lossless.ingest import events as host_filters
from tests.faults import SESSION, contents, problems

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.model.messages import Message

Body = dict[str, Any]
KEY = str(SESSION.key)


def message(role: str, content: Any, **more: Any) -> Message:
    return decode({"role": role, "content": content, **more})


def test_runtime_context_is_no_answer() -> None:
    echo = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> none"
    assert (
        host_filters.why_skipped(message("assistant", [{"type": "text", "text": echo}], stopReason="stop")) is not None
    )
    assert host_filters.why_skipped(message("user", echo, timestamp=1)) is None
    assert host_filters.why_skipped(message("assistant", f"It begins with {echo}", stopReason="stop")) is None


def test_the_words_of_openclaw_are_ordinary_in_other_hosts(engine: lossless.Engine) -> None:
    echo = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> is how OpenClaw marks its notes."
    said = [*heartbeat(), {"role": "user", "content": "What is that marker?"}, {"role": "assistant", "content": echo}]
    session = lossless.Session(key="proxy:work:0123456789abcdef")
    for verb in (engine.append, engine.sync):
        assert verb(session, said).skipped == ()
    assert visible(engine) == [one["content"] or "" for one in said]
    assert not engine.archive.database.rows("SELECT 1 FROM hidden_items")
    assert host_filters.is_quiet_answer(message("assistant", "NO_REPLY"), "agent:main:main")
    assert host_filters.is_quiet_answer(message("assistant", "NO_REPLY", stopReason="stop"), None)
    assert not host_filters.is_quiet_answer(message("assistant", "NO_REPLY"), None)


def test_an_empty_answer_that_failed_is_not_kept() -> None:
    assert host_filters.why_skipped(message("assistant", [], stopReason="aborted")) is not None
    assert host_filters.why_skipped(message("assistant", [], stopReason="stop")) is None


def test_a_delivery_is_noted_once() -> None:
    thought = message(
        "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}], model="m", api="a",
        provider="p",
    )  # fmt: skip
    note = message("assistant", [{"type": "text", "text": "Done."}], model="delivery-mirror", api="a", provider="p")
    other = message("assistant", [{"type": "text", "text": "Done!"}], model="delivery-mirror", api="a", provider="p")
    assert host_filters.is_note_of(note, thought)
    assert not host_filters.is_note_of(other, thought)
    assert not host_filters.is_note_of(note, None)
    assert not host_filters.is_note_of(thought, thought)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"senderIsOwner": True}, None),
        ({"senderId": "7", "senderName": "Ada", "more": 1}, {"senderId": "7", "senderName": "Ada"}),
        ("text", None),
    ],
)
def test_senders_are_known_from_metadata(about: Any, expected: dict[str, str] | None) -> None:
    found = host_filters.sender_of(message("user", "hello", timestamp=1, __openclaw=about))
    assert (None if found is None else json.loads(found)) == expected


def heartbeat(answer: str = "HEARTBEAT_OK", question: str = "Read HEARTBEAT.md and do what it says.") -> list[Body]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
        {"role": "assistant", "content": answer},
    ]


def visible(engine: lossless.Engine) -> list[str]:
    items = engine.archive.context.items(1)
    ids = [item.message_id for item in items if hasattr(item, "message_id")]
    return [stored.message.content for stored in engine.archive.messages.many(ids)]


def test_a_heartbeat_leaves_the_context_and_stays_stored(engine: lossless.Engine) -> None:
    before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    engine.append(SESSION, before)
    beat = heartbeat()
    engine.append(SESSION, beat[:2])
    engine.append(SESSION, beat[2:])
    engine.append(SESSION, [{"role": "user", "content": "go on"}])
    assert visible(engine) == ["hello", "hi", "go on"]
    assert len(contents(engine)) == 7
    assert problems(engine) == []
    causes = engine.archive.database.rows("SELECT DISTINCT cause FROM hidden_items")
    assert causes == [("heartbeat",)]


@pytest.mark.parametrize(
    "turn", [heartbeat(answer="HEARTBEAT_OK, but the disk is full"), heartbeat(question="Say HEARTBEAT_OK")]
)
def test_a_turn_that_says_something_stays(engine: lossless.Engine, turn: list[Body]) -> None:
    engine.append(SESSION, turn)
    assert len(visible(engine)) == 4


SAID: list[Body] = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "  "])
def test_a_turn_that_the_host_calls_a_heartbeat_leaves_the_context(engine: lossless.Engine, answer: str) -> None:
    engine.after_turn(SESSION, new_messages=SAID)
    beat = heartbeat(answer, question="Anything to do?")
    engine.after_turn(SESSION, new_messages=beat, heartbeat=True)
    engine.after_turn(SESSION, new_messages=[{"role": "user", "content": "go on"}])
    assert visible(engine) == ["hello", "hi", "go on"]
    assert len(contents(engine)) == 7
    assert problems(engine) == []


def test_a_heartbeat_that_comes_in_parts(engine: lossless.Engine) -> None:
    engine.after_turn(SESSION, new_messages=SAID)
    for part in heartbeat(question="Anything to do?"):
        assert visible(engine)[:2] == ["hello", "hi"]
        engine.after_turn(SESSION, new_messages=[part], heartbeat=True)
    assert visible(engine) == ["hello", "hi"]
    engine.after_turn(SESSION, new_messages=[{"role": "assistant", "content": "HEARTBEAT_OK"}], heartbeat=True)
    assert visible(engine) == ["hello", "hi"], "one without a question takes nothing else with it"
    assert problems(engine) == []


def test_a_heartbeat_that_the_words_tell_too_is_hidden_once(engine: lossless.Engine) -> None:
    engine.after_turn(SESSION, window=[*SAID, *heartbeat()], heartbeat=True)
    engine.after_turn(SESSION, window=[*SAID, *heartbeat()], heartbeat=True)
    assert visible(engine) == ["hello", "hi"]
    assert problems(engine) == []


def test_a_heartbeat_that_brings_news_stays(engine: lossless.Engine) -> None:
    engine.after_turn(SESSION, new_messages=SAID, heartbeat=True)
    engine.after_turn(SESSION, new_messages=heartbeat("The disk is full."), heartbeat=True)
    assert visible(engine)[-1] == "The disk is full."
    assert len(visible(engine)) == 6


def test_a_heartbeat_in_a_transcript_that_was_never_read_takes_only_its_own_turn(
    engine: lossless.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    beat = heartbeat(question="Anything to do?")
    lines = [{"type": "session", "version": 3, "id": "s"}]
    lines += [{"type": "message", "id": f"e{n}", "message": said} for n, said in enumerate([*SAID, *beat])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    engine.after_turn(SESSION, transcript=path, heartbeat=True)
    assert visible(engine) == ["hello", "hi"]
    assert problems(engine) == []


@pytest.mark.parametrize("wanted", [False, True])
def test_old_heartbeats_are_hidden_where_that_is_wanted(tmp_path: Path, wanted: bool) -> None:
    path = tmp_path / "run.jsonl"
    lines = [{"type": "session", "version": 3, "id": "s"}]
    lines += [{"type": "message", "id": f"e{n}", "message": said} for n, said in enumerate([*SAID, *heartbeat()])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with lossless.open(tmp_path / "lcm.db", lossless.Settings(prune_heartbeat_ok=wanted)) as engine:
        engine.bootstrap(SESSION, path)
        (conversation,) = [engine.archive.conversations.get(1)]
        with engine.archive.writing():  # as another program would have stored them
            for id_ in range(3, 7):
                engine.archive.database.run("DELETE FROM hidden_items WHERE item = ?", (id_,))
                engine.archive.context.put(conversation.id, id_, id_, conversation.created_at)
        path.write_text(path.read_text() + '{"type": "message", "id": "e9", "message": ' + json.dumps(SAID[0]) + "}\n")
        engine.bootstrap(SESSION, path, kind="openclaw")
        assert len(visible(engine)) == (3 if wanted else 7)
        assert problems(engine) == []


def test_a_window_with_hidden_heartbeats_goes_on(engine: lossless.Engine) -> None:
    window: list[Body] = [{"role": "user", "content": "hello"}]
    for n in range(3):
        window += [
            {"role": "assistant", "content": f"answer {n}"},
            *heartbeat(),
            {"role": "user", "content": f"go {n}"},
        ]
        engine.sync(SESSION, window)
        engine.sync(SESSION, window)
    assert visible(engine) == ["hello", "answer 0", "go 0", "answer 1", "go 1", "answer 2", "go 2"]
    assert len(contents(engine)) == len(window)
    assert problems(engine) == []


def test_a_sender_is_named_in_what_recall_finds(engine: lossless.Engine) -> None:
    who = {"senderId": "7", "senderName": "Ada"}
    said: Any = {"role": "user", "content": "The crane needs a new winch.", "timestamp": 1, "__openclaw": who}
    engine.append(SESSION, [said])
    assert "Ada" in str(engine.recall("What does the crane need?", session=SESSION))


@pytest.mark.parametrize("question", ["Read HEARTBEAT.md if it exists.", "[OpenClaw heartbeat poll]"])
@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", " NO_REPLY\n"])
def test_heartbeats_are_known_by_their_words_and_only_where_the_host_is_openclaw(question: str, answer: str) -> None:
    assert host_filters.is_quiet_question(message("user", question, timestamp=1), KEY)
    assert host_filters.is_quiet_answer(message("assistant", answer, timestamp=1), KEY)
    assert not host_filters.is_quiet_question(message("user", [{"type": "input_text", "text": question}]), KEY)
    assert not host_filters.is_quiet_answer(message("assistant", answer, refusal=None), KEY)
    assert not host_filters.is_quiet_answer(message("assistant", f"{answer} as before"), KEY)

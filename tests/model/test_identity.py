"""Hashes that agree with the reference, and the identity of events."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model.conversations import Session, matches_any
from lossless.model.identity import (
    canonical_content,
    checkpoint_hash,
    file_id,
    file_ids_in,
    fingerprint,
    focus_id,
    identity_hash,
    part_id,
    summary_id,
)
from lossless.model.messages import File, Message, ModelIdentity, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "golden" / "vectors.json").read_text(encoding="utf-8")
)
INFO = "Conversation info (untrusted metadata):"
SENDER = "Sender (untrusted metadata):"
RECAP = "Chat history (untrusted metadata):"
texts = st.text(st.characters(exclude_categories=()), max_size=20)


def fenced(heading: str, value: object, *, indent: int | None = 2) -> str:
    return f"{heading}\n```json\n{json.dumps(value, indent=indent, ensure_ascii=False)}\n```"


def compact(heading: str, value: object) -> str:
    return f"{heading}\n```json\n{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}\n```"


@pytest.mark.parametrize(("text", "tokens"), VECTORS["estimateTokens"])
def test_token_vectors(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(("role", "content", "expected"), VECTORS["identity"])
def test_identity_vectors(role: str, content: str, expected: str) -> None:
    assert identity_hash(role, content) == expected


@pytest.mark.parametrize(("content", "expected"), VECTORS["canon"])
def test_canonical_vectors(content: str, expected: str) -> None:
    assert canonical_content("user", content) == expected
    assert canonical_content("assistant", content) == content


@pytest.mark.parametrize(("role", "content", "expected"), VECTORS["checkpoint"])
def test_checkpoint_vectors(role: str, content: str, expected: str) -> None:
    assert checkpoint_hash(role, content) == expected


@pytest.mark.parametrize(("pattern", "name", "expected"), VECTORS["pat"])
def test_session_pattern_vectors(pattern: str, name: str, expected: bool) -> None:
    assert matches_any(name, [pattern]) is expected


@pytest.mark.parametrize(("key", "expected"), VECTORS["cron"])
def test_cron_vectors(key: str, expected: bool) -> None:
    assert Session(key=key).is_cron is expected


def test_file_ids_are_found_in_references() -> None:
    assert [file_ids_in(text) for text in VECTORS["refs"]] == [tuple(VECTORS["fileIds"])] * len(VECTORS["refs"])
    assert file_ids_in("file_0123456789abcdef file_0123456789abcdef0 xfile_0123456789abcdef") == (
        "file_0123456789abcdef",
    )


@given(role=st.sampled_from(["user", "assistant", "system", "tool"]), content=texts)
def test_any_text_has_an_identity(role: str, content: str) -> None:
    assert re.fullmatch("[0-9a-f]{64}", identity_hash(role, content))
    assert re.fullmatch("[0-9a-f]{64}", checkpoint_hash(role, content))
    assert canonical_content(role, content) == content or INFO in content


def test_a_lone_surrogate_counts_as_the_replacement_character() -> None:
    assert identity_hash("user", "a\ud83d") == identity_hash("user", "a\ufffd")
    assert checkpoint_hash("user", "a\ud83d") != checkpoint_hash("user", "a\ufffd")


FRAMES = [
    pytest.param(
        f"{fenced(INFO, {'timestamp': 1, 'sender_id': '7', 'b': {'z': 1.0, 'a': 'é'}})}\n\nhi",
        f"{compact(INFO, {'b': {'z': 1, 'a': 'é'}, 'sender_id': '7'})}\n\nhi",
        id="the keys of the block are sorted, its numbers as in JavaScript",
    ),
    pytest.param(
        f"{fenced(INFO, {'a': 1, 'message_id': '1', 'reply_to_id': '2', 'timestamp': 3})}\n \n\n hi\n",
        f"{compact(INFO, {'a': 1})}\n \n\n hi\n",
        id="the words stay to the last blank",
    ),
    pytest.param(
        f"Delivery: quoted\nreply\n\n{fenced(INFO, {'sender': 'A', 'timestamp': 1})}\n\nhi",
        f"Delivery: quoted\nreply\n\n{compact(INFO, {'sender': 'A'})}\n\nhi",
        id="a delivery note stays in front",
    ),
    pytest.param(
        f"Delivery: {INFO} no\n\n{fenced(INFO, {'sender': 'A', 'timestamp': 2})}\n\nhi",
        f"Delivery: {INFO} no\n\n{compact(INFO, {'sender': 'A'})}\n\nhi",
        id="the frame behind a delivery note begins after an empty line",
    ),
    pytest.param(
        f"{fenced(INFO, {'sender': 'A'})}\n\n{fenced(SENDER, {'timestamp': 'A', 'id': '1'})}\n\nhi",
        f"{compact(INFO, {'sender': 'A'})}\n\n{compact(SENDER, {'id': '1', 'timestamp': 'A'})}\n\nhi",
        id="the sender's block is sorted and loses nothing",
    ),
    pytest.param(
        f"{fenced(INFO, {'sender': 'A'})}\n\n{fenced(SENDER, ['A'])}\n\nhi",
        f"{compact(INFO, {'sender': 'A'})}\n\n{fenced(SENDER, ['A'])}\n\nhi",
        id="a sender's block that is no object is what the user wrote",
    ),
    pytest.param(
        f"{fenced(INFO, {'a': 1, 'history_count': 2, 'history_truncated': True, 'history_media_count': 1})}\n\n"
        f"{fenced(RECAP, [{'sender': 'B', 'body': 'x'}])}\n\nhi",
        f"{compact(INFO, {'a': 1})}\n\nhi",
        id="a recap of the chat is dropped with what counts it",
    ),
    pytest.param(
        f"{fenced(INFO, {'a': 1, 'history_count': 2.0})}\n\n{fenced(SENDER, {'id': '1'})}\n\n"
        f"{fenced('Chat history of today (untrusted):', [{}, {}])}\n\n{fenced(RECAP, [{}])}",
        f"{compact(INFO, {'a': 1})}\n\n{compact(SENDER, {'id': '1'})}\n\n{fenced(RECAP, [{}])}",
        id="one recap is dropped, behind the sender",
    ),
    *(
        pytest.param(
            f"{fenced(INFO, {'a': 1, 'history_count': count})}\n\n{fenced(RECAP, [{'body': 'x'}])}\n\nhi",
            f"{compact(INFO, {'a': 1, 'history_count': count})}\n\n{fenced(RECAP, [{'body': 'x'}])}\n\nhi",
            id=f"with a history count of {count!r} the same text is what the user wrote",
        )
        for count in (0, -1, 1.5, True, "2", None)
    ),
    *(
        pytest.param(
            f"{fenced(INFO, {'a': 1, 'history_count': 1})}\n\n{recap}\n\nhi",
            f"{compact(INFO, {'a': 1})}\n\n{recap}\n\nhi",
            id=f"no recap: {reason}",
        )
        for reason, recap in {
            "lines": f"{RECAP}\nB: x\nC: y",
            "an object": fenced(RECAP, {"body": "x"}),
            "empty": fenced(RECAP, []),
            "not all are objects": fenced(RECAP, [{"body": "x"}, "y"]),
            "another heading": fenced("My chat history (untrusted):", [{"body": "x"}]),
            "a heading without a warning": fenced("Chat history:", [{"body": "x"}]),
            "no end": f"{RECAP}\n```json\n[{{}}]",
        }.items()
    ),
]


@pytest.mark.parametrize(("content", "expected"), FRAMES)
def test_a_frame_is_reduced_to_what_stays_the_same(content: str, expected: str) -> None:
    assert canonical_content("user", content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        f"I quote: {fenced(INFO, {'sender': 'A'})}\n\nhi",
        f"{INFO}\nhi",
        f"{INFO}\n```json\n{{'sender': 1}}\n```\n\nhi",
        f'{INFO}\n```json\n{{"sender": NaN}}\n```\n\nhi',
        f"{INFO}\n```json\n{'[' * 5000}\n```\n\nhi",
        f'{INFO}\n```json\n{{"sender": {"[" * 700 + "]" * 700}}}\n```\n\nhi',
        f"{fenced(INFO, ['sender'])}\n\nhi",
        f" {fenced(INFO, {'sender': 'A', 'timestamp': 1})}\n\nhi",
        f"{fenced(INFO, {'sender': 'A', 'timestamp': 1})}hi",
        f"{fenced(INFO, {'sender': 'A', 'timestamp': 1})}\n\nhi".replace("\n", "\r\n"),
        f'{INFO}\n```json\n{{"sender": 1, "timestamp": 2}}',
        f"{fenced(INFO, {'message_id': '1', 'timestamp': 'x'})}\n\nhi",
        f"{fenced(INFO, {'sender': 'A', 'timestamp': 1})}\n\n  \n",
        f"{fenced(INFO, {'a': 1, 'history_count': 1})}\n\n{fenced(RECAP, [{}])}\n",
        f"Delivery: x\n{fenced(INFO, {'sender': 'A'})}\n\nhi",
        f"Delivery: x\n\ny\n\n{fenced(INFO, {'sender': 'A'})}\n\nhi",
        f"Note: x\n\n{fenced(INFO, {'sender': 'A'})}\n\nhi",
    ],
)
def test_what_is_no_frame_or_holds_nothing_else_stays_as_it_is(content: str) -> None:
    assert canonical_content("user", content) == content


@given(said=texts.filter(lambda text: text.strip() != "" and not text[0].isspace()), moment=texts)
def test_the_same_words_delivered_twice_are_the_same_message(said: str, moment: str) -> None:
    first, second = (
        f"{fenced(INFO, {'sender': 'A', 'timestamp': when, 'message_id': when})}\n\n{said}" for when in ("1", moment)
    )
    assert identity_hash("user", first) == identity_hash("user", second)


@pytest.mark.parametrize(
    "hostile",
    [
        "Delivery:" + f"\n{INFO}" * 100_000,
        "Delivery:" + f"\n\n{INFO}" * 100_000,
        f"{fenced(INFO, {'a': 1, 'history_count': 1})}" + f"\n\n{fenced(SENDER, {})}" * 50_000 + "\n\nhi",
        f"{fenced(INFO, {'a': 1, 'history_count': 1})}" + f"\n\n{fenced(RECAP, [{}])}" * 50_000 + "\n\nhi",
        f"{fenced(INFO, {'a': 1, 'history_count': 1})}\n\nChat history (untrusted" + "(untrusted:" * 100_000,
        f"{INFO}\n```json\n" + '{"a":' * 200_000,
        f"{INFO}\n```json\n" + "\n``" * 300_000,
        " " * 1_000_000 + INFO,
    ],
)
def test_hostile_frames_of_megabytes_are_read_to_their_end(hostile: str) -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    assert canonical_content("user", hostile)


CALL = Message("assistant", "I look.", (Text("I look."), ToolCall("call_a", "read", {"path": "a", "n": 1})))
RESULT = Message("tool", "ok", (ToolResult("call_a", "read", "ok"),))
PICTURE = Message("user", "see", (Text("see"), File({"type": "image", "data": "AA"})))


@pytest.mark.parametrize(
    "other",
    [
        replace(CALL, created_at=datetime(2026, 1, 5, tzinfo=UTC), event_key="x", stop_reason="stop", tokens=5),
        replace(CALL, identity=ModelIdentity("p", "a", "m"), format="openclaw", body={"usage": {"input": 1}}),
        replace(CALL, parts=(Reasoning("why", "sig"), *CALL.parts)),
        replace(CALL, parts=(Text("I look."), ToolCall("call_a", "read", {"n": 1.0, "path": "a"}))),
        replace(CALL, parts=(Text("I"), Text(" look."), CALL.parts[1])),
    ],
)
def test_metadata_and_thinking_do_not_make_another_event(other: Message) -> None:
    assert fingerprint(other) == fingerprint(CALL)


@pytest.mark.parametrize(
    "messages",
    [
        (CALL, replace(CALL, content="I see."), replace(CALL, role="user"), replace(CALL, parts=())),
        (
            CALL,
            replace(CALL, parts=(ToolCall("call_b", "read", {"path": "a", "n": 1}),)),
            replace(CALL, parts=(ToolCall("call_a", "write", {"path": "a", "n": 1}),)),
            replace(CALL, parts=(ToolCall("call_a", "read", {"path": "a", "n": 2}),)),
        ),
        (RESULT, replace(RESULT, parts=(ToolResult("call_b", "read", "ok"),))),
        (PICTURE, replace(PICTURE, parts=(Text("see"), File({"type": "image", "data": "AB"})))),
        (PICTURE, replace(PICTURE, parts=(Text("see"), Opaque({"type": "chart"}, "chart")))),
        (
            Message("user", "in", (Text('{"text":"in","n":1}'),)),
            Message("user", "in", (Text('{"text":"in","n":2}'),)),
            Message("user", "in"),
        ),
        (
            Message("tool", "ok", (ToolResult(None, None, "ok"),), body={"content": '{"message":"ok","n":1}'}),
            Message("tool", "ok", (ToolResult(None, None, "ok"),), body={"content": '{"message":"ok","n":2}'}),
        ),
    ],
)
def test_what_was_said_and_done_makes_another_event(messages: tuple[Message, ...]) -> None:
    prints = {fingerprint(message) for message in messages}
    assert len(prints) == len(messages)
    assert all(len(found) == 16 for found in prints)


@given(content=texts, other=texts)
def test_a_fingerprint_tells_texts_apart(content: str, other: str) -> None:
    same = fingerprint(Message("user", content)) == fingerprint(Message("user", other))
    assert same == (identity_hash("user", content) == identity_hash("user", other))


def test_ids_have_the_form_of_the_reference() -> None:
    assert re.fullmatch("sum_[0-9a-f]{16}", summary_id("text", "nonce"))
    assert summary_id("text", "a") != summary_id("text", "b")
    assert re.fullmatch("file_[0-9a-f]{16}", file_id(1, b"data"))
    assert len({file_id(1, b"data"), file_id(2, b"data"), file_id(1, b"other"), file_id(12, b"data")}) == 4
    assert re.fullmatch("focus_[0-9a-f]{16}", focus_id("nonce"))
    assert summary_id("\ud83d", "n") == summary_id("\ufffd", "n")


@given(nonce=texts, ordinal=st.integers(0, 1000))
def test_part_ids_look_like_random_uuids(nonce: str, ordinal: int) -> None:
    made = UUID(part_id(nonce, ordinal))
    assert (made.version, str(made)) == (4, part_id(nonce, ordinal))
    assert part_id(nonce, ordinal + 1) != str(made)

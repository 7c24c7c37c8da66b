"""The host's window beside the archive's: nothing is shown twice, and nothing that is new is left out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lossless.hosts.openclaw.prompt import (
    compared_message,
    count_references,
    estimate_messages,
    first_fitting,
    first_unknown,
)

SUMMARY = {"role": "user", "content": '<summary id="sum_0123456789abcdef">old</summary>'}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def called(id_: str) -> list[dict[str, Any]]:
    call = {"type": "toolCall", "id": id_, "name": "exec", "arguments": {"cmd": "ls"}}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "toolResult", "toolCallId": id_, "content": [{"type": "text", "text": "a b"}]},
    ]


def test_what_was_assembled_is_known_whatever_the_host_does_to_ids() -> None:
    stored = [user("one"), *called("call_7"), reply("done")]
    window = [SUMMARY, user("one"), *called("call7"), reply("done")]
    assert first_unknown(window, [SUMMARY, *stored]) == len(window)
    assert first_unknown([*window, user("two")], [SUMMARY, *stored]) == len(window)


def test_words_that_the_host_put_before_a_users_are_no_new_words() -> None:
    stored = [user("hello"), reply("hi"), user("go on")]
    assert first_unknown([user("hello"), reply("hi"), user("[Sun 2026-11-15] go on")], stored) == 3
    assert first_unknown([user("hello"), reply("hi"), user("[Queued]\n/new\n\ngo on")], stored) == 3
    assert first_unknown([user("hello"), reply("hi"), user("please go on")], stored) == 2


def test_repeats_are_told_apart_by_what_stands_before_them() -> None:
    stored = [user("a"), reply("x"), user("ok"), reply("done")]
    assert first_unknown([*stored, user("ok")], stored) == 4
    assert first_unknown([user("ok"), reply("done")], stored) == 2
    assert first_unknown([*stored, user("b"), reply("done")], stored) == 4


def test_a_window_behind_the_archive_adds_nothing_and_a_foreign_one_lines_up_nowhere() -> None:
    stored = [user("a"), reply("x"), user("b"), reply("y")]
    assert first_unknown(stored[:2], stored) == 2
    assert first_unknown([SUMMARY], stored) == 1
    assert first_unknown([user("q"), reply("r")], stored) is None
    assert first_unknown([], stored) == 0
    assert first_unknown([user("a")], []) == 0


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.lists(st.sampled_from("xyz"), max_size=5))
def test_what_follows_the_archive_is_kept(known: list[str], new: list[str]) -> None:
    stored = [user(text) if n % 2 == 0 else reply(text) for n, text in enumerate(known)]
    more = [user(text) for text in new]
    start = first_unknown([SUMMARY, *stored, *more], [SUMMARY, *stored])
    assert start == 1 + len(stored)


POLL = "[OpenClaw heartbeat poll]"
NOTE = {"role": "custom", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"}
turns = st.lists(st.tuples(st.sampled_from(["hello", POLL]), st.sampled_from(["closed", "open"])), min_size=1)


def test_a_question_that_only_the_archive_has_is_not_taken_for_an_equal_older_one() -> None:
    history = [user("hello"), reply("af35"), user(POLL), reply("ee2f")]
    stored = [*history, user(POLL)]
    assert first_unknown(history, stored) == 4
    assert first_unknown([*history, NOTE, user("Follow the notes.")], stored) == 4
    assert first_unknown([*history, user(f"[Sun 2026-11-15] {POLL}"), *called("c")], stored) == 5


def test_what_the_archive_does_not_show_any_more_does_not_move_the_place() -> None:
    stored = [user("a"), reply("x"), user("b"), reply("y")]
    quiet = [user(POLL), reply("HEARTBEAT_OK")]
    assert first_unknown([*stored[:2], *quiet, *quiet, *quiet, *stored[2:], user("c")], stored) == 10


@given(turns, st.sampled_from(["hello", POLL]), st.none() | st.integers(1, 12), st.booleans(), st.booleans())
def test_however_alike_turns_are_the_window_is_known_to_its_end(
    said_before: list[tuple[str, str]], question: str, kept: int | None, is_ahead: bool, has_prompt: bool
) -> None:
    """The archive may have the newest question before the host's window has it, and may begin with a summary."""
    history = [message for asked, told in said_before for message in (user(asked), reply(told))]
    stored = history if kept is None else [SUMMARY, *history[-kept:]]
    window = history if is_ahead else [*history, user(question)]
    more = [NOTE, user("Follow the notes.")] if has_prompt else []
    assert first_unknown([*window, *more], [*stored, user(question)]) == len(window)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=30), st.integers(1, 3000))
def test_the_newest_part_that_fits_begins_with_a_user(shape: list[tuple[bool, int]], budget: int) -> None:
    window = [user("x" * size) if is_user else reply("x" * size) for is_user, size in shape]
    start = first_fitting(window, budget)
    kept = window[start:]
    if start:
        assert kept[0]["role"] == "user"
    if any(message["role"] == "user" for message in kept[1:]):
        assert estimate_messages(kept) <= budget


def referred(text: str, role: str = "user") -> dict[str, Any]:
    kind = "Tool Output: file_1 | tool=exec" if role == "toolResult" else f"Raw Payload: file_1 | role={role}"
    return {"role": role, "content": f"[LCM {kind} | {len(text.encode()):,} bytes]\n\nExploration Summary:\n…"}


def test_a_reference_gives_way_to_the_original_that_the_host_shows() -> None:
    big, other = "wörd " * 9_000, "else " * 30_000
    result = {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": big}]}
    assert count_references([user("one"), referred(big)], [user(f"[Sun 2026-11-15] {big}")]) == 1
    assert count_references([user("one"), referred(big, "toolResult")], [result, reply("done")]) == 1
    assert count_references([referred(big, "toolResult")] * 2, [result, result]) == 2
    for more in ([], [user(other)], [user("two")], [reply(big)], [referred(big)], [reply("x"), user(big)]):
        assert count_references([user("one"), referred(big)], more) == 0
    assert not compared_message(user(big)).refers_to(compared_message(user(big)))

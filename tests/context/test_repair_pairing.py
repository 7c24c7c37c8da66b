from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.context.repair import (
    SYNTHETIC_RESULT,
    drop_unanswered,
    is_paired,
    is_synthetic,
    message_groups,
    repair_pairs,
    unanswered_indices,
)
from lossless.model.messages import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from tests.context.streams import assistant, broken_streams, results, tool, user


def shape(messages: tuple[Message, ...]) -> list[str]:
    """Messages in short: `a:c1,c2` calls, `r:c1` a result, `!c1` a synthetic one, words as they are."""
    out = []
    for message in messages:
        calls = ",".join(str(call.id) for call in message.tool_calls)
        answered = ",".join(("!" if is_synthetic(r) else "r:") + str(r.call_id) for r in message.tool_results)
        said = " ".join(part.text for part in message.parts if isinstance(part, Text)) or (
            message.content if not message.parts else ""
        )
        head = f"a:{calls}" if message.role == "assistant" else ""
        out.append(" ".join(filter(None, [head, answered, said])))
    return out


NAMELESS = ToolCall(None, "t", {})

CASES: dict[str, tuple[tuple[Message, ...], list[str]]] = {
    "a good pair stays": (
        (user("q"), assistant("c1"), tool("c1")),
        ["q", "a:c1", "r:c1"],
    ),
    "a missing result is noted": (
        (assistant("c1"), user("next")),
        ["a:c1", "!c1", "next"],
    ),
    "a result without a call goes": (
        (tool("zz"), user("x")),
        ["x"],
    ),
    "the first result counts": (
        (assistant("c1"), tool("c1", "r1"), tool("c1", "r2")),
        ["a:c1", "r:c1"],
    ),
    "a repeated call without a result of its own goes": (
        (assistant("c1"), tool("c1"), assistant(Text("again"), "c1")),
        ["a:c1", "r:c1", "a: again"],
    ),
    "a displaced result returns": (
        (assistant("c1"), user("mid"), tool("c1")),
        ["a:c1", "r:c1", "mid"],
    ),
    "a broken-off answer calls nothing": (
        (assistant(Text("t"), "c1", stop_reason="error"), tool("c1")),
        ["a: t"],
    ),
    "nothing is left of a broken-off call": (
        (assistant("c1", stop_reason="aborted"), user("x")),
        ["x"],
    ),
    "any order right after is fine": (
        (assistant("c1", "c2"), tool("c2"), tool("c1")),
        ["a:c1,c2", "r:c2", "r:c1"],
    ),
    "gathered results come in call order": (
        (assistant("c1", "c2"), user("mid"), tool("c2"), tool("c1")),
        ["a:c1,c2", "r:c1", "r:c2", "mid"],
    ),
    "words of the assistant may stand between": (
        (assistant("c1"), assistant(Text("so far")), tool("c1")),
        ["a:c1", "r:c1", "a: so far"],
    ),
    "a real result beats a synthetic one": (
        (assistant("c1"), tool("c1", SYNTHETIC_RESULT), user("x"), tool("c1", "real")),
        ["a:c1", "r:c1", "x"],
    ),
    "a result before its call returns": (
        (tool("c1"), assistant("c1"), user("x")),
        ["a:c1", "r:c1", "x"],
    ),
    "an id used again in a later turn is renamed": (
        (assistant("c1"), tool("c1", "one"), user("again"), assistant("c1"), tool("c1", "two")),
        ["a:c1", "r:c1", "again", "a:c1__2", "r:c1__2"],
    ),
    "a result that names no call becomes words": (
        (tool(None, "words"), user("x")),
        ["a: words", "x"],
    ),
    "a call without an id gets one, and so does the result right after it": (
        (user("q"), assistant(NAMELESS), tool(None), assistant(NAMELESS, NAMELESS), tool(None, "x"), user("y")),
        ["q", "a:call_t", "r:call_t", "a:call_t__2,call_t__3", "r:call_t__2", "!call_t__3", "y"],
    ),
    "ids used again beside results that name no call": (
        (assistant("c1"), tool("c1"), assistant("c1"), tool("c1"), user("x"), tool(None, "words"), assistant("c2")),
        ["a:c1", "r:c1", "a:c1__2", "r:c1__2", "x", "a: words", "a:c2", "!c2"],
    ),
    "results and words may share a message": (
        (assistant("c1", "c2"), results("c1", "c2", text="and?")),
        ["a:c1,c2", "r:c1,r:c2 and?"],
    ),
    "results under the user's role stay in one message": (
        (assistant("c1", "c2"), results("c1", text="and?"), user("x")),
        ["a:c1,c2", "r:c1,!c2", "and?", "x"],
    ),
    "words go behind all results": (
        (assistant("c1", "c2"), results("c1", text="and?"), results("c2")),
        ["a:c1,c2", "r:c1,r:c2", "and?"],
    ),
    "orphans and repeats leave a shared message": (
        (assistant("c1"), results("c1", "zz", "c1", text="and?")),
        ["a:c1", "r:c1", "and?"],
    ),
}


@pytest.mark.parametrize(("messages", "wanted"), CASES.values(), ids=CASES)
def test_repair(messages: tuple[Message, ...], wanted: list[str]) -> None:
    repaired = repair_pairs(messages)
    assert shape(repaired) == wanted
    assert repair_pairs(repaired) is repaired


def test_nothing_to_repair_gives_the_same_tuple() -> None:
    messages = (user("q"), assistant(Text("t"), "c1", "c2"), tool("c2"), tool("c1"), user("more"))
    assert repair_pairs(messages) is messages


def test_the_missing_result_names_the_call_and_is_an_error() -> None:
    (_, missing) = repair_pairs((assistant(ToolCall("c1", "exec", {}), format="openai-chat"),))
    assert missing.parts == (ToolResult("c1", "exec", SYNTHETIC_RESULT, is_error=True),)
    assert (missing.role, missing.content, missing.format) == ("tool", SYNTHETIC_RESULT, "openai-chat")


def test_untouched_messages_are_the_same_objects_and_changed_ones_lose_their_body() -> None:
    first, late, words = assistant("c1", "c1"), tool("c1"), user("mid")
    changed, moved, same = repair_pairs((first, words, late))
    assert (moved is late, same is words) == (True, True)
    assert (changed.body, len(changed.parts), changed.format) == (None, 1, first.format)


def test_thinking_after_a_lone_call_moves_before_it() -> None:
    thinking, call = Reasoning("hm", "sig"), ToolCall("c1", "t", {})
    (message, _) = repair_pairs((assistant(Text("t"), call, thinking), tool("c1")))
    assert message.parts == (Text("t"), thinking, call)


def test_thinking_alone_does_not_keep_a_message() -> None:
    assert repair_pairs((assistant(Reasoning("hm"), "c1", stop_reason="error"), tool("c1"))) == ()


def test_an_image_goes_with_the_result_of_its_tool() -> None:
    image = File({"type": "image"})
    shown = Message("tool", "r", (ToolResult("c1", "t", "r"), image), "openclaw", {"raw": True})
    assert repair_pairs((assistant("c1"), user("mid"), shown))[1] is shown


def test_a_provider_own_tool_answers_inside_its_message() -> None:
    inside = assistant(ToolCall("s1", "search", {}), ToolResult("s1", "search", "found"), Text("so"))
    messages = (user("q"), inside)
    assert repair_pairs(messages) is messages


def test_a_provider_own_items_are_left_alone_and_stay_together() -> None:
    call = Message("assistant", "", (Opaque({"type": "computer_call", "call_id": "x"}, "computer_call"),))
    shot = Message("tool", "seen", (Opaque({"type": "computer_call_output", "call_id": "x"}, "computer_call_output"),))
    messages = (user("q"), call, user("mid"), shot)
    assert repair_pairs(messages) is messages
    assert message_groups(messages) == (0, 1, 2, 1)


def test_calls_of_neighbouring_items_are_one_turn_in_item_style() -> None:
    messages = (user("q"), assistant("c1"), assistant("c2"), tool("c1"), tool("c2"))
    assert repair_pairs(messages, item_style=True) is messages
    assert shape(repair_pairs(messages)) == ["q", "a:c1", "r:c1", "a:c2", "r:c2"]


@given(broken_streams(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_repair_is_idempotent_and_prefers_real_results(messages: tuple[Message, ...], item_style: bool) -> None:
    repaired = repair_pairs(messages, item_style=item_style)
    assert repair_pairs(repaired, item_style=item_style) is repaired
    broken = {call.id for m in messages if m.stop_reason in ("error", "aborted") for call in m.tool_calls}
    real = {r.call_id for m in messages for r in m.tool_results} - broken
    missing = {r.call_id for m in repaired for r in m.tool_results if is_synthetic(r)}
    assert not (missing & real)


# --- atoms, unanswered calls ----------------------------------------------------------------------


def test_atoms_join_calls_with_results_wherever_they_are() -> None:
    messages = (user("q"), assistant("c1", "c2"), tool("c1"), user("mid"), tool("c2"), assistant(Text("t")))
    assert message_groups(messages) == (0, 1, 1, 3, 1, 5)


def test_atoms_join_a_result_with_the_nearest_call_before_it() -> None:
    messages = (assistant("c1"), tool("c1"), assistant("c1"), tool("c1"))
    assert message_groups(messages) == (0, 0, 2, 2)


def test_atoms_join_thinking_with_what_it_led_to_and_early_results_with_their_call() -> None:
    messages = (tool("c1"), assistant(Reasoning("hm")), assistant("c1"), user("x"))
    assert message_groups(messages) == (0, 0, 0, 3)


def test_calls_that_nobody_answers_are_found() -> None:
    messages = (user("q"), assistant("c1", "c2"), tool("c1"), assistant("c3"), tool("c3"), assistant(Text("t")))
    assert unanswered_indices(messages) == {1}


def test_a_call_goes_only_when_its_result_exists_elsewhere() -> None:
    messages = (assistant(Text("t"), "c1"), assistant("c2"), user("q"), assistant("c3"))
    assert drop_unanswered(messages, frozenset()) is messages
    assert shape(drop_unanswered(messages, {"c1", "c2"})) == ["a: t", "q", "a:c3"]


# --- the proof that there is nothing to repair ----------------------------------------------------


@given(broken_streams(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_proven_to_be_paired_needs_no_repair(messages: tuple[Message, ...], item_style: bool) -> None:
    """The proof may fail on what is in order; it never holds for what is not."""
    for stream in (messages, repair_pairs(messages, item_style=item_style)):
        if is_paired(stream, item_style=item_style):
            assert repair_pairs(stream, item_style=item_style) is stream
            ids = {call.id for message in stream for call in message.tool_calls}
            assert drop_unanswered(stream, ids) is stream


@pytest.mark.parametrize("item_style", [False, True])
def test_a_usual_talk_is_proven_to_be_paired(item_style: bool) -> None:
    calls = assistant(Reasoning("hm", "sig"), Text("I look"), "c1", "c2")
    spoken = (user("q"), calls, tool("c2"), tool("c1"), assistant(Text("so")), user("and?"))
    inside = (user("q"), assistant("c3"), results("c3", text="go on"), assistant(Text("ok")), user("x"))
    for talk in (spoken, inside, (*spoken, *inside), (user("a"), assistant(Text("b")), Message("assistant", "c"))):
        assert is_paired(talk, item_style=item_style)


def test_items_of_one_turn_are_proven_to_be_paired() -> None:
    items = (assistant(Reasoning("hm")), assistant("c1"), Message("assistant", "and"), assistant("c2"))
    asked = (user("q"), *items, tool("c1"), tool("c2"), assistant(Text("so")))
    assert is_paired(asked, item_style=True)
    assert not is_paired(asked)


@pytest.mark.parametrize(
    "broken",
    [
        (assistant("c1"),),
        (assistant("c1"), user("x"), tool("c1")),
        (assistant("c1"), results(text="x"), tool("c1")),
        (assistant("c1"), assistant("c2"), tool("c1"), tool("c2")),
        (assistant("c1"), tool("c1"), tool("c1")),
        (assistant("c1"), tool("c1"), assistant("c1"), tool("c1")),
        (assistant("c1", "c1"), tool("c1")),
        (assistant("c1", stop_reason="error"), tool("c1")),
        (assistant("c1", Reasoning("late")), tool("c1")),
        (assistant(NAMELESS), tool(None)),
        (tool("zz"),),
        (Message("tool", "bare"),),
        (assistant("c1", "c2"), results("c1", text="too early"), tool("c2")),
        (assistant("c1", ToolResult("c1", "t", "inside")),),
        (assistant(ToolResult("c1", "t", "alone")),),
    ],
)
def test_nothing_broken_is_proven_to_be_paired(broken: tuple[Message, ...]) -> None:
    assert not is_paired((user("q"), *broken, user("x")))

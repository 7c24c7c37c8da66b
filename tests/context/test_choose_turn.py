from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lossless
from lossless.context.choose import COLLAPSED_STEP, ContextCandidate, PromptSelection, SelectionPolicy, choose
from lossless.context.render import collapsed_steps_stub, stub_results
from lossless.context.repair import make_valid, message_groups
from lossless.model.context import MessageItem, fresh_tail_start
from lossless.model.messages import Message, Text, ToolCall, ToolResult
from tests.context.contexts import ids, message, policy, summary
from tests.context.payloads import PROVIDERS, complaints

BUDGET = 32_000
NEWEST = 8


def long_turn(steps: int) -> list[Message]:
    """One question, then calls with results of 2 kB each."""
    made = [Message("user", "Read all of it and find the odd one.")]
    for n in range(steps):
        call = ToolCall(f"call_{n}", "read", {"path": f"src/part_{n}.py"})
        text = f"{n:04d} " + "x" * 2_043
        made.append(Message("assistant", "", (call,), "openclaw", {"raw": n}, tokens=30))
        made.append(Message("tool", text, (ToolResult(f"call_{n}", "read", text),), "openclaw", {"raw": n}))
    return made


def candidates_of(messages: list[Message]) -> list[ContextCandidate]:
    together = message_groups(messages)
    return [
        ContextCandidate(
            MessageItem(i, i + 1, message.role, message.tokens, i + 1),
            message.tokens,
            atom=together[i],
            stub_tokens=stub_results(message, i + 1).tokens if message.tool_results else None,
        )
        for i, message in enumerate(messages)
    ]


def rendered(messages: list[Message], chosen: PromptSelection) -> tuple[Message, ...]:
    out = []
    for kept in chosen.kept:
        item = kept.candidate.item
        assert isinstance(item, MessageItem)
        if kept.form == "stub":
            out.append(stub_results(messages[item.message_id - 1], item.message_id))
        elif kept.form == "run":
            gone = [c.item.message_id for c in kept.stands_for if isinstance(c.item, MessageItem)]
            out.append(collapsed_steps_stub(gone))
        else:
            out.append(messages[item.message_id - 1])
    return tuple(out)


def test_four_hundred_results_in_one_turn_are_valid_and_inside_as_they_come() -> None:
    messages = long_turn(400)
    candidates = candidates_of(messages)
    before: tuple[Message, ...] = ()
    changes = 0
    for end in range(3, len(messages) + 1, 6):
        part = candidates[:end]
        rules = SelectionPolicy(BUDGET, fresh_tail_start([c.item for c in part], 64))
        prompt = rendered(messages, choose(part, rules))
        assert sum(m.tokens for m in prompt) <= BUDGET
        assert prompt[0] is messages[0], "the question is there"
        newest = messages[max(1, end - NEWEST) : end]
        assert all(a is b for a, b in zip(prompt[-len(newest) :], newest, strict=True)), "the newest are verbatim"
        for provider in PROVIDERS:
            assert complaints(prompt, provider) == []
        changes += prompt[: len(before)] != before
        before = prompt
    for provider in PROVIDERS:
        assert make_valid(before, provider)[0] is before
        assert complaints(before, provider) == []
    assert changes <= sum(c.tokens for c in candidates) / (0.1 * BUDGET)


def test_stubs_and_the_run_say_which_messages_they_stand_for() -> None:
    messages = long_turn(400)
    candidates = candidates_of(messages)
    chosen = choose(candidates, SelectionPolicy(BUDGET, 0))
    forms = [kept.form for kept in chosen.kept]
    assert forms[:2] == ["verbatim", "run"]
    assert "stub" in forms
    run = chosen.kept[1]
    assert [c.id for c in run.stands_for] == [f"msg#{n}" for n in range(2, 2 + len(run.stands_for))]
    line = rendered(messages, chosen)[1]
    assert line.tokens <= run.tokens
    assert f"msg#2 to msg#{1 + len(run.stands_for)}" in line.content
    assert {reason for _, reason in chosen.left_out} == {COLLAPSED_STEP}
    shown = {kept.candidate.id for kept in chosen.kept} | {c.id for c in run.stands_for}
    assert shown == {c.id for c in candidates}, "each message is there, stubbed, or named"


def test_the_widest_summary_stays_beside_a_long_turn() -> None:
    candidates = [summary(1, 100), message(2, 50), message(3, 50, "assistant"), message(4, 10)]
    candidates += [message(n, 200, "tool", stub_tokens=20) for n in range(5, 20)]
    chosen = choose(candidates, policy(candidates, 2_000))
    assert chosen.fits
    assert ids(chosen)[:3] == ["sum_1", "4", "~5"]
    assert ids(chosen)[-NEWEST:] == [str(n) for n in range(12, 20)]


def test_a_call_that_waits_for_its_result_is_not_left_out() -> None:
    waiting = message(2, 30, "assistant", is_unanswered=True)
    candidates = [message(1, 10), waiting, *(message(n, 200, "tool", stub_tokens=90) for n in range(3, 40))]
    chosen = choose(candidates, policy(candidates, 2_000))
    assert chosen.fits
    assert "2" in ids(chosen)


def test_as_a_last_resort_results_among_the_newest_are_stubbed() -> None:
    candidates = [message(1, 10), *(message(n, 900, "tool", stub_tokens=20) for n in range(2, 8))]
    chosen = choose(candidates, policy(candidates, 2_000))
    assert chosen.fits
    assert ids(chosen)[:2] == ["1", "~2"]
    assert ids(chosen)[-1] == "7"


def test_a_user_message_that_is_too_long_is_kept_and_said_to_be_over_budget() -> None:
    candidates = [summary(1, 10), message(2, 10), message(3, 500)]
    chosen = choose(candidates, policy(candidates, 100))
    assert (ids(chosen), chosen.fits) == (["3"], False)


def test_a_stub_still_pairs_and_says_how_to_open_it() -> None:
    answer = Message("tool", "r" * 4_000, (ToolResult("c1", "exec", "r" * 4_000, is_error=True),), body={"raw": 1})
    stub = stub_results(answer, 812)
    (result,) = stub.tool_results
    assert (result.call_id, result.name, result.is_error, stub.body) == ("c1", "exec", True, None)
    assert result.text.startswith("[LCM Tool Output: msg#812 | tool=exec | 4,000 bytes]\n")
    assert 'lcm_describe(id="msg#812")' in result.text


@pytest.mark.parametrize("count", [1, 9, 10_000])
def test_the_line_for_a_run_is_short_however_much_it_stands_for(count: int) -> None:
    line = collapsed_steps_stub(range(10**8, 10**8 + count), [f"sum_{n:016x}" for n in range(count)])
    assert line.tokens <= SelectionPolicy(1, 0).run_tokens
    assert line.role == "user"


def test_words_beside_stubbed_results_stay() -> None:
    mixed = Message("user", "and?", (ToolResult("c1", "t", "r" * 900), Text("and?")), "anthropic")
    assert stub_results(mixed, 5).parts[1] == Text("and?")


@given(
    budget=st.integers(700, 4_000),
    steps=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 150)), min_size=1, max_size=12),
)
@example(budget=800, steps=[(12, 60)] * 10)
@example(budget=1_500, steps=[(12, 60)] * 4)
@settings(max_examples=6, deadline=None)
def test_steps_of_a_turn_leave_a_small_window_before_it_is_exceeded(budget: int, steps: list[tuple[int, int]]) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "Read all and find the odd one. " * 3}]
    for n, (said, printed) in enumerate(steps):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        words = f"Step {n}: I look at part {n} because the last had nothing odd in it. "
        messages.append({"role": "assistant", "content": words * said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} of the file\n" * printed})
    with lossless.open(":memory:", background=False) as engine:
        engine.append("small", messages)
        made = engine.assemble("small", budget=budget)
    assert made.receipt.fits, made.receipt.why_over
    named = {id_ for id_, _ in (*made.receipt.included, *made.receipt.left_out)}
    assert named == {f"msg#{n + 1}" for n in range(len(messages))}
    assert complaints(made.parts, "openai-chat") == []

"""Hosts that make new ids for the same calls: the rows keep the first ids, and calls and results stay paired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless import formats
from lossless.ingest.call_ids import ids_of, name_by_words, rename
from lossless.model.messages import Message, ToolCall
from tests.faults import SESSION, context, problems

if TYPE_CHECKING:
    import lossless

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def _verified(engine: lossless.Engine) -> Any:
    yield
    assert problems(engine) == []


def turn(n: int, id_: str, *, answer: bool = True, result: str | None = None) -> list[Body]:
    """A question, a call with its result, and the answer."""
    arguments = json.dumps({"path": f"/data/report-{n}.csv", "id": "0"})
    call = {"id": id_, "type": "function", "function": {"name": "read", "arguments": arguments}}
    bodies: list[Body] = [
        {"role": "user", "content": f"How many lines has report number {n}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id_, "content": f"{n * 911} lines" if result is None else result},
    ]
    return [*bodies, {"role": "assistant", "content": f"Report {n} has {n * 911} lines."}] if answer else bodies


def window(count: int, request: int, *, numbered: bool = False) -> list[Body]:
    ids = [f"call_{n}" if numbered else f"call_{request:06d}{n:010d}" for n in range(count)]
    return [body for n, id_ in enumerate(ids) for body in turn(n, id_)]


def test_calls_under_new_ids_are_the_stored_ones(engine: lossless.Engine) -> None:
    for count in range(1, 6):
        assert engine.sync(SESSION, window(count, count)).stored == 4
    assert engine.sync(SESSION, window(5, 99)).stored == 0


def test_a_window_that_moves_on_and_counts_its_calls_from_the_first(engine: lossless.Engine) -> None:
    bodies = window(8, 0)
    for end in range(12, 33, 4):
        shown, n = json.loads(json.dumps(bodies[max(0, end - 16) : end])), 0
        for body in shown:
            if body.get("tool_calls"):
                n += 1
                body["tool_calls"][0]["id"] = f"call_{n}"
            elif body["role"] == "tool":
                body["tool_call_id"] = f"call_{n}"
        engine.sync(SESSION, shown)
    assert engine.archive.listings.counts().messages == 32


def test_a_result_that_comes_later_answers_the_stored_call(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [*window(2, 1), *turn(2, "call_first", answer=False)[:2]])
    engine.sync(SESSION, [*window(2, 2), *turn(2, "call_second")])
    prompt: list[Body] = engine.assemble(SESSION, budget=100_000).messages
    calls = [call["id"] for body in prompt for call in body.get("tool_calls", ())]
    assert calls == [body["tool_call_id"] for body in prompt if body["role"] == "tool"]
    assert (len(context(engine)), calls[-1]) == (12, "call_first")


def test_shortened_results_under_new_ids_are_versions(engine: lossless.Engine) -> None:
    engine.sync(SESSION, window(3, 1))
    shown = window(4, 2)
    shown[2]["content"] = "[Old tool result content cleared]"
    assert engine.sync(SESSION, shown).stored == 4
    assert context(engine)[2] == "0 lines"


def test_a_call_made_again_where_the_rows_end_is_counted(engine: lossless.Engine) -> None:
    engine.sync(SESSION, turn(1, "call_a", answer=False))
    report = engine.sync(SESSION, turn(1, "call_b", answer=False))
    assert (report.stored, report.ambiguous) == (0, 2)


def test_another_answer_after_a_call_under_a_new_id_is_counted(engine: lossless.Engine) -> None:
    engine.sync(SESSION, turn(1, "call_a"))
    other = {"role": "assistant", "content": "It has nearly a thousand."}
    report = engine.sync(SESSION, [*turn(1, "call_b", answer=False), other])
    assert (report.stored, report.ambiguous) == (1, 2)


def test_a_result_of_the_same_call_made_again_is_its_own(engine: lossless.Engine) -> None:
    """Rule: a result moves with its call only, though the old one is shown as a placeholder."""
    engine.sync(SESSION, window(3, 1))
    shown = window(3, 2)
    shown[2]["content"] = "[Old tool result content cleared]"
    assert engine.sync(SESSION, [*shown, {"role": "user", "content": "Again?"}, *turn(0, "call_x")[1:]]).stored == 4
    assert context(engine).count("0 lines") == 2


def test_a_call_made_again_after_another_message_is_stored(engine: lossless.Engine) -> None:
    engine.sync(SESSION, turn(1, "call_a"))
    without_tools = [body for body in turn(1, "call_a") if body["role"] != "tool" and not body.get("tool_calls")]
    assert engine.sync(SESSION, [*without_tools, *turn(1, "call_b", answer=False)[1:]]).stored == 2


def test_other_ids_change_no_words() -> None:
    body = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "0", "name": "read", "input": {"id": "0", "tool_call_id": "0"}}],
    }
    made = rename(formats.decode(body), {"0": "call_x"})
    assert ids_of(made) == ["call_x"]
    assert made.original["content"] == [body["content"][0] | {"id": "call_x"}]  # type: ignore[operator]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"id": "1"}]}]}
    answered = rename(formats.decode(result), {"1": "call_y"})
    assert ids_of(answered) == ["call_y"]
    assert answered.original["content"] == [result["content"][0] | {"tool_use_id": "call_y"}]  # type: ignore[operator]


def test_equal_calls_of_one_message_have_names_of_their_own() -> None:
    calls = tuple(ToolCall(id_, "sh", {"cmd": "ls"}) for id_ in ("a", "b"))
    (named,) = name_by_words([Message("assistant", "", calls)])
    assert len(set(ids_of(named))) == 2


def test_a_trailing_system_message_does_not_hide_the_stored_calls(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [*turn(1, "call_a", answer=False), {"role": "system", "content": "One file is open."}])
    report = engine.sync(SESSION, [*turn(1, "call_b"), {"role": "system", "content": "Two files are open."}])
    assert (report.stored, report.ambiguous) == (2, 2)

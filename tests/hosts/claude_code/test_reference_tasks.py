"""Work noted task by task: what the calls and their answers leave open, whatever they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.hosts.claude_code.reference import DONE_STATUSES, TASK_TOOLS, open_work, tasks_after
from lossless.model.messages import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.model.messages import Json

STATUSES = st.sampled_from(["pending", "in_progress", "completed", "deleted"])
CHANGES = st.lists(
    st.tuples(st.just("make"), st.just("pending"))
    | st.tuples(st.integers(1, 4), STATUSES)
    | st.tuples(st.just("list"), st.just("")),
    max_size=25,
)


def used(name: str, input_: Json, answer: str, number: int = 0, *, is_error: bool = False) -> Iterator[Message]:
    """A call and its answer."""
    yield Message("assistant", "", (ToolCall(f"call-{number}", name, input_),))
    yield Message("tool", answer, (ToolResult(f"call-{number}", None, answer, is_error),))


def lines(*said: Iterator[Message]) -> list[str]:
    tasks = tasks_after(message for some in said for message in some)
    return [f"- [{status}] {words}" for status, words in tasks if status not in DONE_STATUSES]


def made(number: int, subject: str) -> Iterator[Message]:
    return used("TaskCreate", {"subject": subject}, f"Task #{number} created successfully: {subject}", number)


@given(CHANGES)
def test_what_is_open_is_what_the_calls_left_open(changes: list[tuple[Any, str]]) -> None:
    expected: dict[str, str] = {}
    said: list[Message] = []
    for number, (what, status) in enumerate(changes):
        if what == "make":
            id_ = str(number + 10)
            expected[id_] = "pending"
            answer = f"Task #{id_} created successfully: w{id_}"
            said += used("TaskCreate", {"subject": f"w{id_}"}, answer, number)
        elif what == "list":
            there = {id_: status for id_, status in expected.items() if status != "deleted"}
            told = "\n".join(f"#{id_} [{status}] w{id_}" for id_, status in there.items()) or "No tasks found"
            said += used("TaskList", {}, told, number)
        elif len(expected) >= what:
            id_ = list(expected)[what - 1]
            expected[id_] = status
            said += used("TaskUpdate", {"taskId": id_, "status": status}, f"Updated task #{id_} status", number)
    found = {words: status for status, words in tasks_after(said) if status not in DONE_STATUSES}
    left = {id_: status for id_, status in expected.items() if status not in ("completed", "deleted")}
    assert found == {f"#{id_} w{id_}": status for id_, status in left.items()}


def test_a_call_counts_when_it_was_answered_and_not_refused() -> None:
    unanswered = iter([Message("assistant", "", (ToolCall("x", "TaskCreate", {"subject": "Never"}),))])
    refused = used("TaskUpdate", {"taskId": "9", "status": "in_progress"}, "Task not found", 5)
    failed = used("TaskUpdate", {"taskId": "1", "status": "completed"}, "no", 6, is_error=True)
    assert lines(made(1, "Mend it"), unanswered, refused, failed) == ["- [pending] #1 Mend it"]


def test_a_task_that_was_made_elsewhere_is_known_by_its_id() -> None:
    begun = used("TaskUpdate", {"taskId": 7, "status": "in_progress"}, "Updated task #7 status")
    assert lines(begun) == ["- [in_progress] #7"]


def test_a_whole_list_is_believed() -> None:
    told = "#2 [in_progress] Tell it (harbour) [blocked by #1]\n#3 [pending] Sell [it]\n"
    assert lines(made(1, "Mend it"), made(2, "Tell it"), used("TaskList", {}, told)) == [
        "- [in_progress] #2 Tell it",
        "- [pending] #3 Sell [it]",
    ]
    assert lines(made(1, "Mend it"), used("TaskList", {}, "No tasks found")) == []
    assert lines(made(1, "Mend it"), used("TaskList", {}, "something else")) == ["- [pending] #1 Mend it"]
    cut = used("TaskList", {}, "#2 [pending] Tell it\nand more of that")
    assert lines(made(1, "Mend it"), cut) == ["- [pending] #1 Mend it", "- [pending] #2 Tell it"]


ANYTHING = st.recursive(
    st.none() | st.text(max_size=20) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["subject", "description", "taskId", "status"]), inner, max_size=4)
    ),
)


@given(
    st.lists(st.tuples(st.sampled_from(sorted(TASK_TOOLS)), ANYTHING, st.text(max_size=40), st.booleans()), max_size=6)
)
def test_any_calls_can_be_read(calls: list[tuple[str, Json, str, bool]]) -> None:
    said = [
        message
        for number, (name, input_, answer, is_error) in enumerate(calls)
        for message in used(name, input_, answer, number, is_error=is_error)
    ]
    assert all("\n" not in words for _, words in tasks_after(said))


def test_the_newest_call_says_which_list_counts() -> None:
    with lossless.open(":memory:", background=False) as engine:
        session = lossless.Session(key="k")

        def say(name: str, input_: Json, answer: str) -> str | None:
            call = {"type": "tool_use", "id": f"t{answer}", "name": name, "input": input_}
            engine.append(session, [{"role": "assistant", "content": [call]}])
            result = {"type": "tool_result", "tool_use_id": f"t{answer}", "content": answer}
            engine.append(session, [{"role": "user", "content": [result]}])
            work = open_work(engine.browse, 1)
            return None if work is None else work.text

        todo = {"content": "Read", "status": "pending"}
        assert say("Read", {"todos": [todo]}, "a file") is None
        assert say("TodoWrite", {"todos": [todo]}, "written") == "- [pending] Read"
        assert say("TaskCreate", {"subject": "Mend"}, "Task #1 created successfully: Mend") == "- [pending] #1 Mend"
        assert say("TaskList", {}, "#1 [in_progress] Mend") == "- [in_progress] #1 Mend"
        assert say("update_plan", {"plan": [{"step": "Tell"}]}, "Plan updated") == "- [pending] Tell"
        assert say("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status") is None

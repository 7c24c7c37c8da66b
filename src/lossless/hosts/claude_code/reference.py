"""The text that a host's model reads after its context was compacted: the last requests, open tasks, pins and
summaries, within a number of tokens. What does not fit is named by its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.model.context import SummaryItem
from lossless.model.times import state_time
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from lossless.maintenance.browse import Browse
    from lossless.model.messages import JsonObject, Message, ToolCall, ToolResult
    from lossless.model.records import MessageRow

#: Shares of the budget: the newest request, then open work, pins, the last answer, earlier requests; summaries get the
#: rest.
_NEWEST_SHARE, _WORK_SHARE, _PINS_SHARE, _ANSWER_SHARE, _EARLIER_SHARE = 0.35, 0.15, 0.15, 0.15, 0.1
#: An earlier request is shown up to so many tokens, a summary at least up to so many.
_EARLIER_TOKENS, _SUMMARY_TOKENS = 80, 320
#: Below so many tokens nothing is begun any more.
_LEAST = 24
_CUT = " […]"
_OWN_TAGS = re.compile(r"<(?=/?lossless_reference\b)")


@dataclass(frozen=True, slots=True)
class Quotation:
    """Something that was said, or a summary of it: the id that opens it, when, and the words."""

    id: str
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class ConversationState:
    """Where a conversation stands."""

    conversation_id: int
    messages: int
    #: What the user asked for, newest first, and the model's last words.
    requests: tuple[Quotation, ...] = ()
    answer: Quotation | None = None
    pins: tuple[Quotation, ...] = ()
    #: Summaries of what was said before, in order.
    summaries: tuple[Quotation, ...] = ()
    #: What the model's own list of work says is not done yet.
    work: Quotation | None = None


def reference_text(state: ConversationState, max_tokens: int) -> str:
    """The text for the model; never more than `max_tokens`, and '' when not even its frame fits."""
    template = Path(__file__).with_name("reference.txt").read_text("utf-8")
    head, tail = template.format(id=state.conversation_id, messages=state.messages).split("[sections]\n")
    tail = tail.removesuffix("\n")
    budget = max_tokens - estimate_tokens(head + tail) - 1
    return head + "".join(_sections(state, budget)) + tail if budget >= 0 else ""


def _sections(state: ConversationState, budget: int) -> list[str]:
    """The parts in the order in which they are read; what matters most is measured first."""
    work, answer = ((one,) if one else () for one in (state.work, state.answer))
    parts: list[tuple[str, tuple[Quotation, ...], float, int | None]] = [
        ("Last request of the user, verbatim:", state.requests[:1], _NEWEST_SHARE, None),
        ("Open work, by the assistant's last list:", work, _WORK_SHARE, None),
        ("Pinned by the user, still in force:", state.pins, _PINS_SHARE, None),
        ("Last words of the assistant:", answer, _ANSWER_SHARE, None),
        ("Requests before that, newest first:", state.requests[1:], _EARLIER_SHARE, _EARLIER_TOKENS),
    ]
    texts, tokens_left = [], budget
    for heading, quotes, share, each in parts:
        texts.append(_listed(heading, quotes, min(tokens_left, int(budget * share)), each))
        tokens_left -= estimate_tokens(texts[-1])
    heading = "What was said and decided before, in summaries, newest first:"
    each = max(_SUMMARY_TOKENS, tokens_left // max(1, len(state.summaries)))
    newest, open_work, pins, last_words, earlier = texts
    return [pins, _listed(heading, state.summaries[::-1], tokens_left, each), earlier, last_words, open_work, newest]


def _listed(heading: str, quotes: tuple[Quotation, ...], budget: int, each: int | None) -> str:
    """A heading and as many quotations as fit, each cut where it must be; '' when none fits."""
    text = head = f"\n{heading}\n"
    for quote in quotes:
        limit = budget - estimate_tokens(text) - 1
        if limit < _LEAST:
            break
        label = f"[{quote.id}{', ' if quote.at else ''}{quote.at}] "
        words = _OWN_TAGS.sub("&lt;", quote.text.strip())
        space = (limit if each is None else min(limit, each)) - estimate_tokens(label) - 2
        if estimate_tokens(words) > space:
            words = cut_to_tokens(words, max(0, space - 2)).rstrip() + _CUT
        text += f"{label}{words}\n"
    return text + "\n" if text != head and estimate_tokens(text) < budget else ""


#: The tools that change, or tell, single tasks.
TASK_TOOLS = frozenset(("TaskCreate", "TaskUpdate", "TaskList"))
#: What is said of work that is not open any more.
DONE_STATUSES = frozenset(("completed", "done", "resolved", "deleted", "cancelled", "canceled"))
_MADE = re.compile(r"#(\w[\w-]*) created\b")
_LISTED = re.compile(r"#(\w[\w-]*) \[(\w+)\] (.*?)(?: \[blocked by [^\]]*\])?")
_REFUSED = re.compile(r"\bnot found\b", re.IGNORECASE)


#: Tasks as the last call left them, by id: the state and the words of each, which may be unknown.
AgentTasks: TypeAlias = dict[str, tuple[str, str]]


def tasks_after(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """State and words of all tasks after these messages, in the order of their making. Answered calls count."""
    asked: dict[str, ToolCall] = {}
    found: AgentTasks = {}
    for message in messages:
        asked |= {call.id: call for call in message.tool_calls if call.id is not None and call.name in TASK_TOOLS}
        for result in message.tool_results:
            call = asked.pop(result.call_id or "", None)
            if call is not None and not result.is_error:
                found = _after(found, call, result)
    return [(status, f"#{id_} {words}".rstrip()) for id_, (status, words) in found.items()]


def _after(found: AgentTasks, call: ToolCall, result: ToolResult) -> AgentTasks:
    if call.name == "TaskList":
        return _listed_tasks(found, result.text)
    given = call.arguments
    if not isinstance(given, Mapping):
        return found
    subject = _words(given, "subject")
    if call.name == "TaskCreate":
        made = _MADE.search(result.text)
        return found if made is None else found | {made[1]: ("pending", subject or _words(given, "description"))}
    id_ = given.get("taskId")
    if not isinstance(id_, (str, int)) or _REFUSED.search(result.text):
        return found
    status, words = found.get(str(id_), ("pending", ""))
    return found | {str(id_): (_words(given, "status") or status, subject or words)}


def _listed_tasks(found: AgentTasks, text: str) -> AgentTasks:
    """The tasks that a whole list names; those that we have keep our words. What is no such list changes nothing."""
    lines = [] if text.lower().startswith("no tasks") else [line for line in text.splitlines() if line.strip()]
    named = [match.groups() for line in lines if (match := _LISTED.fullmatch(line.strip()))]
    tasks = {id_: (status, found.get(id_, ("", ""))[1] or words) for id_, status, words in named}
    return tasks if len(named) == len(lines) else found | tasks


def _words(given: JsonObject, name: str) -> str:
    value = given.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


#: The tools that replace the whole list at each call: Claude Code's, Codex's, and those of their kin.
_LISTING = frozenset(("TodoWrite", "update_plan", "todowrite", "todo_write", "write_todos"))
_LISTS = ("todos", "plan")
_WORDS = ("content", "step", "description", "title")
#: How many of the newest calls are looked through that speak of one task each.
_MAX_TASK_CALLS = 1_000


def open_work(browse: Browse, conversation_id: int) -> Quotation | None:
    """What the newest list says is still to be done, from the messages themselves; None when nothing is.

    A list is told whole by one call, or task by task by many: the newest call says which of both counts.
    """
    newest = browse.tool_calls(conversation_id, sorted(_LISTING | TASK_TOOLS), 1)
    if not newest:
        return None
    stored = browse.message(newest[0])
    call = next((call for call in reversed(stored.message.tool_calls) if call.name in _LISTING | TASK_TOOLS), None)
    if call is not None and call.name in _LISTING:
        work = list(listed_work(call))
    else:
        ids = browse.tool_calls(conversation_id, sorted(TASK_TOOLS), _MAX_TASK_CALLS)
        work = tasks_after(found.message for found in browse.stored_messages(ids))
    lines = [f"- [{status}] {words}" for status, words in work if status not in DONE_STATUSES]
    return Quotation(f"msg#{stored.id}", state_time(stored.created_at), "\n".join(lines)) if lines else None


def listed_work(call: ToolCall) -> Iterator[tuple[str, str]]:
    """What a call puts on the list, with the state of each; nothing of what is no list."""
    given = call.arguments
    listed = next((given[name] for name in _LISTS if name in given), None) if isinstance(given, Mapping) else None
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        words = next((item[name] for name in _WORDS if isinstance(item.get(name), str) and item[name].strip()), None)
        if words is not None:
            status = item.get("status")
            yield (status if isinstance(status, str) and status else "pending"), " ".join(words.split())


#: How far back requests are looked for, and how many are told.
_LOOKED_AT, _REQUESTS = 60, 6
_SUMMARIES = 12
#: What hosts put where words would be: commands, their output, instructions, a summary of their own, fillers.
_NOT_SAID = re.compile(
    r"\s*(?:<[a-z]+(?:[-_][a-z]+)+>|\[Request interrupted|Caveat: The messages below|# AGENTS\.md"
    r"|This session is being continued from a previous"
    r"|(?:Continue from where you left off|No response requested)\.\s*$)"
)


def read_state(browse: Browse, conversation_id: int) -> ConversationState:
    """What was asked and answered last, what is still to be done, what is pinned, and what summaries there are."""
    with browse.reading():
        page = browse.messages(conversation_id, _LOOKED_AT, roles=("user",), whole=True)
        requests = [row for row in page.rows if is_spoken(row)][:_REQUESTS]
        spoken = browse.messages(conversation_id, _LOOKED_AT, roles=("assistant",), whole=True)
        answer = next((row for row in spoken.rows if is_spoken(row)), None)
        items = browse.context_items(conversation_id)
        ids = [item.summary_id for item in items if isinstance(item, SummaryItem)][-_SUMMARIES:]
        summaries = browse.summaries_whole(ids)
        pins = browse.pins(conversation_id)
        count, _ = browse.message_totals(conversation_id)
        work = open_work(browse, conversation_id)
    said = tuple(map(_quoted, requests)), None if answer is None else _quoted(answer)
    pinned = tuple(Quotation(f"pin {pin.id}", _time(pin.at), pin.content) for pin in pins)
    before = tuple(Quotation(found.id, _time(found.latest_at), found.content) for found in summaries)
    return ConversationState(conversation_id, count, *said, pinned, before, work)


def is_spoken(row: MessageRow) -> bool:
    """Whether a person or a model said this: no tool's call or answer, and nothing that a host made up."""
    return not row.tools and bool(row.content.strip()) and _NOT_SAID.match(row.content) is None


def _quoted(row: MessageRow) -> Quotation:
    return Quotation(f"msg#{row.message_id}", _time(row.created_at), row.content)


def _time(at: datetime | None) -> str:
    return "" if at is None else state_time(at)

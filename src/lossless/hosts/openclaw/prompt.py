"""`assemble`: the prompt from the archive, joined with those messages of the host's window that the archive does not
have yet.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from lossless.formats.synthetic import CUE_OPEN, EVIDENCE_OPEN, OPENING_TEXT, PINNED_TEXT
from lossless.hosts.openclaw.bridge import Bridge, is_ignored
from lossless.model.budget import budget_tokens
from lossless.providers.token_limits import window_tokens

if TYPE_CHECKING:
    from lossless.context.run import Assembled
    from lossless.hosts.openclaw.rpc import PluginCall
    from lossless.model.conversations import Conversation

#: How many messages at the end of what was assembled are looked for in the window.
_ANCHORS = 8
#: How many before them are compared to tell equal places apart.
_DEPTH = 32
_OURS = ('<summary id="sum_', "<focus_brief id=", CUE_OPEN, EVIDENCE_OPEN, PINNED_TEXT, OPENING_TEXT)
#: What stands in the archive's prompts for a message that is a file there, and how long that is.
_REFERENCE = re.compile(r"\[LCM (?:Raw Payload|Tool Output): file_[^\]\n]*\| ([\d,]+) bytes\]")
#: By so many bytes, or a tenth, a host's text may differ: it puts times before words.
_SLACK_BYTES = 256


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """A message as far as it can be told from others: hosts rewrite ids and times on the way."""

    role: str
    text: str
    calls: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.role == "user" and self.text.startswith(_OURS)

    def agrees(self, other: ComparedMessage) -> bool:
        """Whether both are the same event. Hosts put a line or a time before a user's words."""
        if self.role != other.role or self.calls != other.calls:
            return False
        if self.text == other.text or self.role != "user":
            return self.text == other.text
        short, long = (self.text, other.text) if len(self.text) < len(other.text) else (other.text, self.text)
        return bool(short) and long.endswith(short) and long[: -len(short)].endswith(("\n", "] "))

    def refers_to(self, other: ComparedMessage) -> bool:
        """Whether this only stands for the other, which is in a file here and a message there."""
        found = _REFERENCE.match(self.text)
        if found is None or self.role != other.role or _REFERENCE.match(other.text):
            return False
        size, shown = int(found[1].replace(",", "")), len(other.text.encode("utf-8", "surrogatepass"))
        return abs(size - shown) <= max(_SLACK_BYTES, size // 10)


def compared_message(message: dict[str, Any]) -> ComparedMessage:
    """What a message says, whatever it looks like."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    given = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    texts = [text for text in given if isinstance(text, str) and text]
    calls = [
        f"{block.get('name')}{json.dumps(block.get('arguments'), sort_keys=True)}"
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "toolCall"
    ]
    return ComparedMessage(str(message.get("role")), "\n".join(texts).strip(), tuple(calls))


def first_unknown(window: Sequence[dict[str, Any]], assembled: Sequence[dict[str, Any]]) -> int | None:
    """Where in the window the messages begin that are behind what was assembled; None when nothing lines up.

    Either may be ahead of the other. They meet where most of what comes before agrees, then where it does over the
    longest stretch; of equal places the last counts, so that nothing is shown twice.
    """
    known = [one for one in map(compared_message, assembled[-_DEPTH - _ANCHORS :]) if not one.is_ours]
    if not window or not known:
        return 0
    shown = [compared_message(message) for message in window]
    if all(one.is_ours for one in shown):
        return len(window)
    *_, place = max(_meetings(shown, known, is_cut=len(known) < len(assembled)), default=(None,))
    return place


def count_references(assembled: Sequence[dict[str, Any]], more: Sequence[dict[str, Any]]) -> int:
    """How many messages at the end of what was assembled only refer to those with which the window goes on."""
    for count in range(min(len(assembled), len(more), _ANCHORS), 0, -1):
        pairs = zip(assembled[-count:], more[:count], strict=True)
        if all(compared_message(one).refers_to(compared_message(other)) for one, other in pairs):
            return count
    return 0


def _meetings(
    shown: Sequence[ComparedMessage], known: Sequence[ComparedMessage], *, is_cut: bool
) -> Iterator[tuple[int, int, int]]:
    """Every place behind a message of the window that agrees with one of the last that are known.

    With it: how many agree up to there in order, and how many of them without a gap; the place comes last.
    When what is known begins in the middle (`is_cut`) and all of it agrees but the newest question, that counts as if
    the message before its beginning agreed as well: else a window without that question would be short of one.
    """
    commons = runs = [0] * (len(shown) + 1)
    for end, one in enumerate(known, start=1):
        common, run = [0], [0]
        is_ahead = is_cut and end == len(known) - 1 and known[-1].role == "user"
        for at, other in enumerate(shown):
            agrees = one.agrees(other)
            run.append(runs[at] + 1 if agrees else 0)
            common.append(max(commons[at] + agrees, commons[at + 1], common[at]))
            if agrees and end > len(known) - _ANCHORS:
                more = 1 if is_ahead and run[-1] == end else 0
                yield commons[at] + 1 + more, run[-1] + more, at + 1
        commons, runs = common, run


def estimate_messages(messages: Sequence[dict[str, Any]]) -> int:
    return window_tokens({"role": message.get("role"), "content": message.get("content")} for message in messages)


def first_fitting(window: Sequence[dict[str, Any]], budget: int) -> int:
    """Where the newest part of a window begins that fits the budget: at a user's message, and never after the last."""
    remaining, users = budget, [n for n, message in enumerate(window) if message.get("role") == "user"]
    start = len(window)
    for start in range(len(window), 0, -1):
        remaining -= estimate_messages(window[start - 1 : start])
        if remaining < 0:
            break
    else:
        return 0
    return next((n for n in users if n >= start), users[-1] if users else 0)


#: Least that is left for the archive when the window holds much that it does not know yet.
_LEAST_TOKENS = 1_000
#: The host counts a token for so many characters; results of tools may have several times as many tokens as that, and
#: are assumed to have at least so many times.
_HOST_CHARS, _LEAST_DENSITY = 4, 1.5
#: Of the room for a conversation so much at most stays free for later turns because a turn needed it.
_KEPT_FREE = 0.5
#: Shorter results say nothing about others.
_TELLING_CHARS = 1_000


def pending_tokens(call: PluginCall, window: Sequence[dict[str, Any]], space: int) -> int:
    """What the host is going to add to the prompt: the steps of the turn so far, which only its budget tells of.

    It reserves space for them by their length, so the densest result in the window says how many tokens that may be.
    They are counted in tenths of the space: else each step would change the prompt.
    """
    offered, whole = call.number("tokenBudget"), call.number("promptBudget")
    if offered is None or whole is None or offered >= whole:
        return 0
    texts = [compared_message(message).text for message in window if message.get("role") == "toolResult"]
    dense = [_HOST_CHARS * budget_tokens(text) / len(text) for text in texts if len(text) >= _TELLING_CHARS]
    tenth = max(1, space // 10)
    return max(space // 4, ceil((whole - offered) * max([_LEAST_DENSITY, *dense]) / tenth) * tenth)


def assemble(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """The prompt: assembled messages, then the host's own from `liveFrom` on.

    The plugin sends the end of a long window; when that is not enough to find the place, it is asked for all.
    """
    engine, session = bridge.engine, call.session
    budgets = {name: call.params.get(name) for name in ("sessionKey", "sessionId", "tokenBudget", "promptBudget")}
    window, limits = call.messages, bridge.limits(replace(call, params=budgets))
    frame = limits["overhead"] or 0
    all_there_is = (limits["budget"] or engine.settings.default_token_budget) - frame
    offset = max(0, (call.number("messageCount") or len(window)) - len(window))
    conversation = None if is_ignored(engine.settings, session) else engine.browse.find(session)
    if conversation is None or engine.browse.newest_message_id(conversation.id) is None:
        return _live(window, offset, all_there_is)
    limits = bridge.limits(call)  # a model is learned about once there is a prompt of ours
    pending = pending_tokens(call, window, all_there_is)
    with bridge.state(session) as state:  # what was pending stays free until the next fold: prompts change less
        state.reserved = max(state.reserved, min(pending, int(_KEPT_FREE * all_there_is)))
        pending = max(state.reserved, pending)
    most = max(0, all_there_is - _LEAST_TOKENS)
    made = _made(bridge, conversation, call.text("prompt"), limits, min(pending, most))
    start = first_unknown(window, made.messages)
    if start is None or (start == 0 and offset):
        return _live(window, offset, all_there_is - pending)
    ours = frozenset(one.text for one in map(compared_message, made.messages) if one.is_ours)
    with bridge.state(session) as state:
        rendered = state.rendered = state.rendered | ours
    while start < len(window) and (one := compared_message(window[start])).is_ours and one.text in rendered:
        start += 1
    more = window[start:]
    estimated = estimate_messages(more)
    if more:
        made = _made(bridge, conversation, call.text("prompt"), limits, min(pending + estimated, most))
    # a name for the summaries at the head of the prompt: it changes when they do, not when messages are added
    names = "\n".join(name for name, _ in made.receipt.included if name.startswith("sum_"))
    epoch = f"summary-prefix-v1:{conversation.id}:{hashlib.sha256(names.encode()).hexdigest()[:32]}"
    with bridge.state(session) as state:
        if state.epoch != epoch:
            state.epoch, state.reserved = epoch, 0
        state.sent = made.tokens + estimated if state.sent is None else state.sent
    kept = len(made.messages) - count_references(made.messages, more)
    shown, twice = made.messages[:kept], made.messages[kept:]
    result: dict[str, Any] = {
        "messages": shown if [m.get("content") for m in shown] != [OPENING_TEXT] else [],
        "liveFrom": offset + start,
        "estimatedTokens": max(0, made.tokens - estimate_messages(twice)) + estimated,
        "contextProjection": {"mode": "thread_bootstrap", "epoch": epoch},
    }
    return result if bridge.adds_policy else result | {"systemPromptAddition": made.system_prompt}


def _made(
    bridge: Bridge, conversation: Conversation, prompt: str | None, limits: dict[str, Any], more: int
) -> Assembled:
    if more:
        limits = limits | {"overhead": (limits["overhead"] or 0) + more}
    return bridge.engine.assemble(
        conversation, prompt=prompt, format="openclaw", allow_trailing_assistant=prompt is not None, fold=True, **limits
    )


def _live(window: Sequence[dict[str, Any]], offset: int, budget: int) -> dict[str, Any]:
    if offset:
        return {"needsAll": True}
    start = first_fitting(window, budget)
    return {"messages": [], "liveFrom": start, "estimatedTokens": estimate_messages(window[start:])}

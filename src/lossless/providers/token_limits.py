"""Token limits of a request: known windows, the conversation's share, sizes, too-long errors, recall results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import formats
from lossless.context import render
from lossless.errors import NotFound
from lossless.formats.reading import is_blob
from lossless.ingest.window import count_system_head
from lossless.maintenance.engine_parts import model_name
from lossless.model.budget import HistoryBudget, budget_tokens
from lossless.model.context import framed_tokens
from lossless.model.search_text import load_patterns
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import TOOLS, ToolCallResult, openai_tools

if TYPE_CHECKING:
    from lossless.context.run import Assembled
    from lossless.engine import Engine
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Session, SessionRef
    from lossless.model.messages import ModelIdentity
    from lossless.providers.api import Raw

_WINDOWS, _TOO_LONG = load_patterns(__package__)["windows"], load_patterns(__package__)["too_long"]


def known_window(model: str) -> int | None:
    """The window of a model by its name; None when unknown.

    >>> known_window("gpt-4o-mini"), known_window("anthropic/claude-sonnet-4-5"), known_window("my-own")
    (128000, 200000, None)
    """
    name = model.rsplit("/", 1)[-1].lower()
    return next((tokens for start, tokens in _WINDOWS.items() if name.startswith(start)), None)


_STATUSES = frozenset((400, 413, 422))
#: The assumed size, as a share of the window, of a prompt that was refused without a count.
REFUSED_SHARE = 1.1
#: How much of an error is read.
_MOST_CHARS = 4_000


#: The provider's count of a prompt that it refused as too long and its window, as far as it tells them.
TooLong: TypeAlias = tuple[int | None, int | None]


def parse_too_long(answer: str, status: int | None = None) -> TooLong | None:
    """What an error about the length of the prompt tells; None for other errors. The status is optional.

    >>> parse_too_long("prompt is too long: 210,431 tokens > 200,000 maximum", 400)
    (210431, 200000)
    """
    answer = answer[:_MOST_CHARS]
    if (status is not None and status not in _STATUSES) or not _TOO_LONG["sign"].search(answer):
        return None
    for pattern in _TOO_LONG["counts"].values():
        if (found := pattern.search(answer)) is not None:
            prompt, window = (int(re.sub(r"\D", "", found[name]) or 0) for name in ("prompt", "window"))
            if prompt > window > 0:
                return prompt, window
    return None, None


def overhead_tokens(system: str | None = None, tools: Iterable[Any] = ()) -> int:
    """The tokens of a system prompt and tool definitions, each as its JSON."""
    defined = list(tools)
    size = _tokens(json.dumps(defined, ensure_ascii=False, default=str)) if defined else 0
    return size + _tokens(system or "")


@lru_cache(maxsize=64)
def _tokens(text: str) -> int:
    """The tokens of a text, cached: the same texts are sent with every request."""
    return max(estimate_tokens(text), budget_tokens(text))


def recall_tool_tokens(*, policy: bool = True) -> int:
    """The tokens of the recall tools and the policy on how to use them."""
    return overhead_tokens(render.RECALL_POLICY if policy else "", openai_tools())


#: The minimum size of a shortened message that is not stored yet.
_SHORTEST = 64
#: Keys of messages that hold no text.
_NAMES = frozenset(
    ("role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "toolCallId", "status", "signature")
)
#: The sizes of so many messages are remembered.
_REMEMBERED = 32_768


def window_tokens(window: Iterable[Raw]) -> int:
    """The tokens of a window as it is sent, summed over its messages."""
    return sum([message_tokens(message) for message in window])


def message_tokens(message: Raw) -> int:
    """The tokens of one message as it is sent, measured once: hosts send the same ones repeatedly."""
    role, content = message.get("role"), message.get("content")
    text = ""
    if len(message) == 2 and type(role) is str and type(content) is str:
        key = (len(content), hash((role, content)))
    else:
        message = render.without_carried(message)
        text = render.item_json(message)
        key = (len(text), hash(text))
    known = _sizes.get(key)
    if known is None:
        while len(_sizes) >= _REMEMBERED:
            _sizes.pop(next(iter(_sizes)), None)
        tokens = render.item_tokens(message, text or render.item_json(message))
        known = _sizes[key] = _dense_tokens(message, tokens)
    return known


def _dense_tokens(message: Raw, tokens: int) -> int:
    words = "\n".join(_texts(message))
    by_kind = budget_tokens(words)
    return tokens if by_kind <= estimate_tokens(words) else max(tokens, framed_tokens(by_kind))


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if key not in _NAMES and not is_blob(value, key):
            yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, key)


#: Tokens of messages by the length and hash of their words, or of their JSON.
_sizes: dict[tuple[int, int], int] = {}


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """A model's window, and what is sent in it besides the conversation; stores turns, fits prompts."""

    engine: Engine
    #: Maximum tokens of a prompt with its reply.
    size: int
    overhead: int = 0
    #: Tokens reserved for the reply; None for the last value.
    reply: int | None = None
    model: ModelIdentity | str | None = None

    def history(self, who: SessionRef) -> HistoryBudget:
        """The conversation's share of the window; NotFound when nothing of it is stored yet."""
        return self.engine.host.history_budget(
            who, budget=self.size, overhead=self.overhead, reply=self.reply, model=self.model
        )

    def capacity(self, who: SessionRef) -> int:
        """The tokens that messages of a session may use."""
        if self.engine.browse.find(who) is None:
            return HistoryBudget(self.size, self.overhead, reply=self.reply or 0).tokens
        return self.history(who).tokens

    def store(self, session: Session, **turn: Any) -> AppendReport:
        """Store a turn, with the other arguments of `Engine.after_turn`, and compact when it is due."""
        known: dict[str, Any] = {"budget": self.size, "overhead": self.overhead, "reply": self.reply}
        return self.engine.after_turn(session, model=model_name(self.model), **(known | turn)).append

    def assemble(self, session: Session, more: int = 0, **how: Any) -> Assembled | None:
        """The prompt that leaves so many tokens free; None when nothing is stored."""
        known: dict[str, Any] = {"budget": self.size, "overhead": self.overhead + more, "reply": self.reply}
        try:
            return self.engine.assemble(session, model=self.model, fold=True, **(known | how))
        except NotFound:
            return None

    def refused(self, session: Session, counted: int | None, sent: int | None) -> None:
        """Record that a provider refused a prompt as too long: of so many tokens by its count and our estimate."""
        counted = counted or int(self.size * REFUSED_SHARE)
        self.engine.host.refused(
            session, prompt_tokens=counted, sent=sent, budget=self.size, model=self.model, overhead=self.overhead
        )


def shows_all(engine: Engine, report: AppendReport, window: Sequence[Raw], *, prompts: bool = False) -> bool:
    """Whether a window that was just stored is complete: nothing older, no pins, no focus.

    With `prompts`, its system prompts must be complete, too.
    """
    if report.conversation_id is None:
        return True
    message_count, head = len(window) - len(report.skipped), None if prompts else count_system_head(window)
    return engine.host.shows_all(report.conversation_id, message_count, head)


def holds_payload(window: Iterable[Raw], threshold: int) -> bool:
    """Whether a message is so large that the archive has a reference in place of its text."""

    def characters(message: Raw) -> int:
        content = message.get("content")
        return len(content) if isinstance(content, str) else len(render.item_json(render.without_carried(message)))

    return any(2 * characters(message) >= threshold <= message_tokens(message) for message in window)


def shorten_unstored(items: Sequence[Raw], limit: int, format: str) -> list[Raw]:
    """Messages that are not stored yet, cut to at most `most` tokens if possible: the longest are shown in part."""
    found = list(items)
    length = limit // 2
    while window_tokens(found) > limit and length >= _SHORTEST:
        found = []
        for item in items:
            is_short = message_tokens(item) <= length
            short = None if is_short else render.shorten_message(formats.decode(item), None, length, format)
            found += [item] if short is None else render.encode_for_model(short, format).items
        length //= 2
    return found


#: The arguments that limit a tool's result.
_CAPS = ("tokenCap", "maxTokens")
_CAPPED = {tool.name: cap for tool in TOOLS for cap in _CAPS if cap in tool.schema["properties"]}
#: Tokens around the text of a tool's result.
_AROUND = 200


def recall_result(engine: Engine, session: Session | None, name: str, args: Any, limit: int) -> ToolCallResult:
    """The result of a recall tool in at most about `limit` tokens: with a cursor where the tool has pages."""
    if (cap := _CAPPED.get(name)) is not None and isinstance(args, dict):
        asked = args.get(cap)
        if not isinstance(asked, int) or asked > limit - _AROUND:
            args = args | {cap: max(limit - _AROUND, 1)}
    found = engine.tools.run(name, args, session=session)
    is_short = estimate_tokens(found.text) <= limit
    return found if is_short else replace(found, text=render.shorten_text(found.text, limit))

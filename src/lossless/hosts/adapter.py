"""Shared by the framework adapters: sync a framework's messages with the archive, fit a prompt, convert content
blocks, and name the extra to install when a package is missing.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.context.render import CARRIED
from lossless.errors import BadInput
from lossless.formats.synthetic import PINNED_TEXT
from lossless.model.budget import HistoryBudget
from lossless.model.conversations import Session
from lossless.model.messages import Message
from lossless.providers.token_limits import (
    PromptLimits,
    parse_too_long,
    recall_result,
    shows_all,
    window_tokens,
)

if TYPE_CHECKING:
    from lossless.engine import Engine


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of a host's package: when it is missing, the error says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = f"{name} is not installed (no module {error.name!r}): pip install 'lossless[{name}]'"
        raise ModuleNotFoundError(missing, name=error.name) from None


Raw = dict[str, Any]


def text_block(text: str) -> Raw:
    return {"type": "text", "text": text}


def media_block(kind: str | None, data: bytes | str, name: str | None = None) -> Raw:
    """A block with the bytes of a picture, or of a file of another kind; a text is base64 already."""
    kind = kind or "application/octet-stream"
    address = f"data:{kind};base64,{data if isinstance(data, str) else b64encode(data).decode()}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "file", "file": {"file_data": address, "filename": name or kind.replace("/", ".")}}


def mention_block(what: str, *known: object) -> Raw:
    """A block of text in the place of something that lies elsewhere, or that cannot be read here.

    >>> mention_block("video", "https://example.org/a.mp4", None)
    {'type': 'text', 'text': '[video: https://example.org/a.mp4]'}
    """
    facts = ", ".join(str(one) for one in known if one)
    return text_block(f"[{what}: {facts}]" if facts else f"[{what}]")


def chat_content(blocks: Iterable[Raw]) -> str | list[Raw]:
    """The content of a chat message: one text where there is nothing else."""
    found = list(blocks)
    if all(block["type"] == "text" for block in found):
        return "\n".join(block["text"] for block in found)
    return found


#: How the ids of messages begin in a receipt.
_MESSAGE = "msg#"
#: Where frameworks have what is sent of a tool.
_DEFINITION = (
    "name", "description", "params_json_schema", "parameters_json_schema", "input_schema", "inputSchema"
)  # fmt: skip
#: What a recall tool returns takes at most one in so many parts of a prompt.
ANSWER_SHARE = 4


@dataclass(frozen=True, slots=True)
class WindowSync:
    """Syncs windows of one framework's messages and gives back what a model shall see."""

    engine: Engine
    #: The framework; of what others have stored in the same session, only the words are read.
    kind: str
    #: Tokens that a prompt may have; else the setting `defaultTokenBudget`.
    budget: int | None = None
    #: What the last request of each session had, by our estimate, until its reply is there.
    sent: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)

    def fit(
        self, session: Session, window: Sequence[Raw], overhead: int = 0, model: str | None = None
    ) -> tuple[Message, ...] | None:
        """Store what the window adds, and the messages to send instead of it; None when it is sent as it is.

        `overhead`: tokens sent besides it: system prompts that are not in it, and tools.
        """
        share, limits = HistoryBudget(self.size, overhead), self.limits(overhead, model)
        report = limits.store(session, window=window, whole=True)
        if report.conversation_id is None or report.blocked is not None:
            return None
        who = report.conversation or session
        capacity = limits.history(who).tokens
        self.sent[session.name] = window_tokens(window)
        if shows_all(self.engine, report, window) and self.sent[session.name] <= capacity:
            warn_over_budget(share.over, share.why_over)
            return None
        made = limits.assemble(session, allow_trailing_assistant=True)
        if made is None:
            return None
        self.sent[session.name] = made.tokens
        warn_over_budget(share.over + made.receipt.over, share.why_over or made.receipt.why_over)
        # one that a file stands in does not carry the framework's own, which is as large as ever
        ids = [int(id_.removeprefix(_MESSAGE)) for id_, _ in made.receipt.included if id_.startswith(_MESSAGE)]
        references = {stored.message.content for stored in self.engine.host.in_files(ids)}
        return self._kept_together(
            [replace(one, body=None) if one.content in references else one for one in made.parts]
        )

    def turn(
        self, session: Session, window: Sequence[Raw], prompt_tokens: int | None = None, overhead: int = 0,
        model: str | None = None,
    ) -> None:  # fmt: skip
        """Store a window that ends with a reply, learn from what was counted, and see whether it is time to fold."""
        sent = self.sent.pop(session.name, None)
        self.limits(overhead, model).store(session, window=window, whole=True, observed_tokens=prompt_tokens, sent=sent)

    def refused(self, session: Session, error: BaseException, overhead: int = 0, model: str | None = None) -> None:
        """A request failed: where it was too long by the provider's count, the next one is shorter."""
        found, sent = parse_too_long(str(error)), self.sent.pop(session.name, None)
        if found is not None and self.engine.browse.find(session) is not None:
            self.limits(overhead, model).refused(session, found[0], sent)

    def limits(self, overhead: int, model: str | None) -> PromptLimits:
        return PromptLimits(self.engine, self.size, overhead, model=model)

    @property
    def size(self) -> int:
        return self.budget or self.engine.settings.default_token_budget

    def carrying(self, chat: Raw, own: Any) -> Raw:
        """A chat message that carries what it came from."""
        return chat | {CARRIED: {self.kind: plain_json(own)}}

    def own(self, message: Message) -> Any:
        """What a message carries of this framework; None for what we wrote, and for what came another way."""
        return None if message.body is None else (message.body.get(CARRIED) or {}).get(self.kind)  # type: ignore[union-attr]

    def _kept_together(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages that came as one carry it only while none of them has changed: else each stands for itself."""
        runs: list[list[Message]] = []  # results of tools that follow each other, and what follows them
        for message in messages:
            goes_on = bool(runs) and bool(runs[-1][-1].tool_results) and message.role in ("tool", "user")
            runs[-1].append(message) if goes_on else runs.append([message])
        made: list[Message] = []
        for run in runs:
            own = [self.own(message) for message in run]
            is_broken = None in own and {} in own
            made += [replace(message, body=None) if is_broken else message for message in run]
        return tuple(made)

    def call(self, session: Session | None, name: str, args: Any) -> str:
        """Use a recall tool; its answer leaves room for more."""
        return recall_result(self.engine, session, name, args, self.size // ANSWER_SHARE).text


def warn_over_budget(over: int, why: str) -> None:
    if over > 0:
        warnings.warn(f"this prompt is {over:,} tokens over its budget: {why}", RuntimeWarning, stacklevel=4)


def check_budget(budget: Any, name: str = "budget") -> Any:
    """A number of tokens, or None; raises BadInput for anything else."""
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0):
        raise BadInput(f"{name} is a number of tokens above 0, or None for the setting's, not {budget!r}")
    return budget


def tool_definitions(tools: Iterable[Any]) -> list[Raw]:
    """What is sent of a framework's tools: name, description and schema, as far as they have them."""
    return [
        {name: value for name in _DEFINITION if isinstance(value := getattr(tool, name, None), str | dict)}
        for tool in tools
    ]


def required_session(name: Any, what: str) -> Session:
    """The session of this name; without one, BadInput says where it belongs."""
    if name is None or not str(name).strip():
        raise BadInput(f"nothing says which session this is: pass {what}")
    return Session(key=str(name))


def session_or_new(session: str | Session | None) -> Session:
    """The session that is meant; without one, a new one: another user's session is never continued by accident."""
    if isinstance(session, Session):
        return session
    program = Path(sys.argv[0] if sys.argv else "").stem.lstrip("-") or "python"
    return Session(key=f"chat:{program}:{secrets.token_hex(8)}" if session is None else session)


def plain_json(value: Any) -> Any:
    """A value as JSON has it; what JSON cannot hold is there in words."""
    text = json.dumps(value, default=lambda one: list(one) if isinstance(one, set) else str(one), skipkeys=True)
    return json.loads(text, parse_constant=str)


# --- hosts that join neighbouring messages of one role: our own texts in them are split off again ---

#: How hosts join texts, and where a text of ours may end; so many places are tried.
_JOINT = "\n\n"
_ENDS = re.compile(r"\n\n|\Z")
_MARKS = ("<", "[", PINNED_TEXT[:6])
_SUMMARY, _SUMMARY_ENDS = "<summary ", re.compile(r"(?<=</summary>)(?:\n\n|\Z)")
_TRIES = 64


def split_joined(engine: Engine, session: Session, window: Iterable[Raw]) -> list[Raw]:
    """The window with our own texts, and what was joined to them, as messages of their own."""
    found = engine.browse.find(session)
    if found is None:
        return list(window)
    is_ours = partial(engine.host.identify_synthetic, found)
    return [part for message in window for part in _parts(message, is_ours)]


def _parts(message: Raw, is_ours: Callable[[Message], str | None]) -> Iterator[Raw]:
    text = message.get("content")
    if message.get("role") != "user" or not isinstance(text, str):
        yield message
        return
    rest = text
    while rest and (end := _end_of_ours(rest, is_ours)):
        yield {"role": "user", "content": rest[:end]}
        rest = rest[end + len(_JOINT) :]
    if rest or not text:
        yield message if rest == text else message | {"content": rest}


def _end_of_ours(text: str, is_ours: Callable[[Message], str | None]) -> int | None:
    """Where the text of ours ends that this text begins with; None when it begins with none."""
    if not text.startswith(_MARKS):
        return None
    ends = (_SUMMARY_ENDS if text.startswith(_SUMMARY) else _ENDS).finditer(text)
    places = (found.start() for found in islice(ends, _TRIES))
    return next((end for end in places if is_ours(Message("user", text[:end], tokens=0)) is not None), None)


#: A prompt must have grown by so many tokens to tell anything.
_LEAST = 500
#: The last prompt as the archive keeps it: its session, its size by our estimate, and by the provider's count.
_KEPT = re.compile(r"([0-9a-f]{16}) ([0-9]{1,9}) ([0-9]{1,9})")


def learn_growth(
    engine: Engine, session: Session, model: str, estimated: int, reported: int, before: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Learn a model's tokenizer from what two prompts of a session with the same frame differ by.

    Returns the sizes to hand in with the next prompt, as `before`. The archive keeps them, too, for hosts that start a
    process for each turn, but only those of one session for each model.
    """
    place = blake2b(str(session.key).encode(), digest_size=8).hexdigest()
    kept = None if before else _KEPT.fullmatch(engine.host.last_prompt(model))
    if kept is not None and kept[1] == place:
        before = int(kept[2]), int(kept[3])
    if before is not None:
        added, counted = estimated - before[0], reported - before[1]
        if 0 <= added < _LEAST:
            return before
        if added > 0 and counted > 0:
            engine.host.learn(model, added, counted)
    engine.host.keep_last_prompt(model, f"{place} {estimated} {reported}")
    return estimated, reported

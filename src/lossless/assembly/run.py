"""Assembling a prompt: one read, a choice, a repair, an encoding. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lossless import formats
from lossless.assembly import render
from lossless.assembly.candidates import NOTHING_STANDS_FOR, Policy
from lossless.assembly.cue import cue_message, cue_snippet, cue_terms, place_cue
from lossless.assembly.material import Material, read
from lossless.assembly.offers import Offers
from lossless.assembly.parts import estimated, newest_user
from lossless.assembly.plan import Chosen, choose
from lossless.assembly.policy_text import RECALL_POLICY
from lossless.assembly.receipt import Receipt, receipt
from lossless.assembly.request import Request
from lossless.assembly.stubs import NOTICE_TOKENS, left_out_line
from lossless.assembly.validate import make_valid, shape_of
from lossless.assembly.wire import Sent, clean_text, sent, sent_tokens, with_few_marks
from lossless.model.context import MessageItem, SummaryItem, fresh_tail_start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.assembly.candidates import Candidate
    from lossless.assembly.plan import Kept
    from lossless.assembly.validate import Repair
    from lossless.files.vault import Vault
    from lossless.model.context import ContextItem
    from lossless.model.messages import Message
    from lossless.store.archive import Archive

__all__ = ["Assembled", "Receipt", "Request", "assemble"]

#: How often a prompt that turns out larger than was reckoned is chosen anew, by what has been measured.
_MEASUREMENTS = 3
#: A smaller prompt has no room for a line about what it leaves out.
_LEAST_FOR_NOTICE = 2_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt: messages in the host's format, their estimated tokens, and how they were chosen."""

    messages: list[dict[str, Any]]
    tokens: int
    receipt: Receipt
    #: What to add to the system prompt: constant bytes.
    system_prompt: str = RECALL_POLICY
    #: The conversation's own system prompt, in a format that keeps it apart from the messages.
    system: str = ""
    #: The same messages as values, before encoding.
    parts: tuple[Message, ...] = ()


def assemble(
    archive: Archive,
    conversation_id: int,
    request: Request,
    search: Callable[[str], Sequence[tuple[str, str]]] | None = None,
    vault: Vault | None = None,
) -> Assembled:
    """The prompt for the next turn: `[system] [pins] summaries … fresh tail`, within the budget.

    `search` finds (where, text) pairs for a term; without it there is no recall cue. From `vault` the newest turn
    gets its payloads back.
    """
    with archive.reading():
        material = read(archive, conversation_id, request, vault)
    items, covered = material.with_focus()
    rendered = {item.ordinal: material.rendered(item, request) for item in items}
    beside, dropped_pins = _beside(material, request)
    beside_tokens = sum(sent_tokens(message, sent(message, request.format)) for message in beside)
    is_capped = request.fresh_tail_max_tokens is not None
    policy = Policy(
        request.budget,
        tail_start=fresh_tail_start(items, request.fresh_tail_count, request.fresh_tail_max_tokens),
        reserved=beside_tokens,
        factor=request.factor,
        is_prompt_aware=request.prompt_aware and bool(request.prompt),
        border=material.border,
        keeps_tail=not is_capped,
        notice_tokens=NOTICE_TOKENS if is_capped and request.budget >= _LEAST_FOR_NOTICE else 0,
    )
    desk = _Desk(material, request, items, rendered, beside)
    prompt, mending = desk.prompt(policy), 0
    while prompt.tokens > policy.capacity and prompt.mending > mending:
        mending = prompt.mending
        prompt = desk.prompt(replace(policy, reserved=beside_tokens + mending))
    final, cue_tokens = _with_cue(prompt.messages, policy.capacity - prompt.tokens, request, search)
    wire = desk.wire(final) if cue_tokens else prompt.wire
    left_out = [(pin.id, "no room among the pins") for pin in dropped_pins]
    left_out += [(summary_id, f"covered by {material.brief.id}") for summary_id in covered if material.brief]
    extras = {"pins and focus": beside_tokens, "cue": cue_tokens}
    made = receipt(
        prompt.chosen,
        policy,
        extras=extras,
        left_out=left_out,
        repairs=prompt.repairs,
        history=request.history,
        unread=material.unread,
        corrected=tuple(material.changes),
    )
    made = replace(made, tokens=prompt.tokens + cue_tokens)
    apart = [clean_text(message.content) for message in takewhile(lambda message: message.role == "system", final)]
    if not apart or not shape_of(request.format).system_apart:
        return Assembled(wire, made.tokens, made, parts=final)
    talk = [message for message in wire if message.get("role") != "system"]
    return Assembled(talk, made.tokens, made, system="\n\n".join(apart), parts=final)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A choice as it would be sent."""

    chosen: Chosen
    messages: tuple[Message, ...]
    repairs: tuple[Repair, ...]
    wire: list[dict[str, Any]]
    tokens: int
    #: Tokens that repairs have added.
    mending: int


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where a prompt is put together. What was rebuilt and measured stays on it."""

    material: Material
    request: Request
    items: Sequence[ContextItem]
    rendered: dict[int, Message]
    beside: Sequence[Message]
    #: By the identity of the message, which each entry keeps alive.
    measured: dict[int, Sent] = field(default_factory=dict)
    #: What the words of a message take, by the estimate for budgets.
    estimates: dict[int, int] = field(default_factory=dict)
    #: Items in shorter forms, by ordinal, form and size.
    formed: dict[tuple[int, str, int], Message] = field(default_factory=dict)

    def prompt(self, policy: Policy) -> _Prompt:
        """What fits, mended and measured."""
        chosen, kept, tokens = self._fitting(policy)
        notice = self._notice(chosen, policy.limit - tokens) if policy.notice_tokens else None
        if notice is not None:
            kept = _with_notice(chosen, kept, notice)
            tokens += self._size(notice)
        valid = make_valid(
            _ordered(kept, self.beside),
            self.request.format,
            model=self.request.model,
            allow_trailing_assistant=self.request.allow_trailing_assistant,
            answered_elsewhere=self.material.answered,
        )
        whole = sum([self._size(message) for message in valid.messages])
        meant = tokens + sum(self._size(message) for message in self.beside)
        return _Prompt(chosen, valid.messages, valid.repairs, self.wire(valid.messages), whole, whole - meant)

    def _notice(self, chosen: Chosen, room: int) -> Message | None:
        """The line that says what is left out with nothing standing for it, if something is and there is room."""
        out = [left.candidate.item for left in chosen.left_out if left.reason in NOTHING_STANDS_FOR]
        names = [item.summary_id for item in out if isinstance(item, SummaryItem)]
        count = len(out) - len(names) + self.material.unread
        if not count and not names:
            return None
        said = (kept.candidate.item for kept in chosen.kept if isinstance(kept.candidate.item, MessageItem))
        following = next((item.message_id for item in said if item.role != "system"), None)
        line = left_out_line(count, following, names, recall=self.request.recall)
        return line if self._size(line) <= room else None

    def wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages as they are sent."""
        joined = formats.join([self._sent(message).written for message in messages], self.request.format)
        return with_few_marks(joined) if self.request.format == "anthropic" else joined

    def _sent(self, message: Message) -> Sent:
        known = self.measured.get(id(message))
        if known is None:
            known = self.measured[id(message)] = sent(message, self.request.format)
        return known

    def _size(self, message: Message) -> int:
        """What a message takes as it is sent; only what was made for this prompt is estimated now."""
        known = self.estimates.get(id(message))
        if known is None:
            known = self.estimates[id(message)] = estimated(message)
        return sent_tokens(message, self._sent(message), known)

    def _fitting(self, policy: Policy) -> tuple[Chosen, list[Message], int]:
        """A choice that fits by its true sizes, as messages; what is chosen by estimates may be larger."""
        offers = Offers(self.material, self.request, policy)
        candidates = offers.candidates(self.items, self.rendered)
        chosen = choose(candidates, policy)
        for _ in range(_MEASUREMENTS):
            kept, tokens = self._built(chosen)
            if tokens <= policy.limit:
                return chosen, kept, tokens
            again = choose([self._as_measured(candidate) for candidate in candidates], policy)
            if again.kept == chosen.kept:
                break
            chosen = again
        sizes = [self._size(self._whole(item)) for item in self.items]
        chosen = choose(offers.candidates(self.items, self.rendered, sizes), policy)
        return chosen, *self._built(chosen)

    def _as_measured(self, candidate: Candidate) -> Candidate:
        message = self.rendered[candidate.item.ordinal]
        return candidate if id(message) not in self.measured else replace(candidate, tokens=self._size(message))

    def _built(self, chosen: Chosen) -> tuple[list[Message], int]:
        """What was chosen, as messages, and what they take."""
        messages = [
            self._whole(kept.candidate.item) if kept.form == "verbatim" else self._formed(kept) for kept in chosen.kept
        ]
        return messages, sum([self._size(message) for message in messages])

    def _whole(self, item: ContextItem) -> Message:
        """An item as it stands; a message in the very format that is asked for exactly as it came."""
        message = self.rendered[item.ordinal]
        if message.body is None and isinstance(item, MessageItem):
            message = self.rendered[item.ordinal] = self.material.exact(item, message, self.request)
        if id(message) not in self.estimates:
            self.estimates[id(message)] = self.material.estimate(item, message)
        return message

    def _formed(self, kept: Kept) -> Message:
        ordinal = kept.candidate.item.ordinal
        key = (ordinal, kept.form, len(kept.stands_for) or kept.tokens)
        if key not in self.formed:
            self.formed[key] = self.material.formed(kept, self.rendered[ordinal], self.request)
        return self.formed[key]


def _beside(material: Material, request: Request) -> tuple[list[Message], tuple[render.Pin, ...]]:
    """What stands before the context whatever happens: pins, then the focus brief."""
    kept, dropped = render.choose_pins(material.pins, Policy(request.budget, 0, factor=request.factor).capacity)
    beside = []
    if (pins := render.pins_message(kept)) is not None:
        beside.append(pins)
    if material.brief is not None and (covered := material.with_focus()[1]):
        changes = [material.changes[id_] for id_ in covered if id_ in material.changes]
        beside.append(render.focus_message(material.brief, request.timezone or UTC, changes))
    return beside, dropped


def _with_notice(chosen: Chosen, kept: list[Message], notice: Message) -> list[Message]:
    """With the line before the first message that is shown for itself."""
    items = [one.candidate.item for one in chosen.kept]
    said = (n for n, item in enumerate(items) if isinstance(item, MessageItem) and item.role != "system")
    place = next(said, len(kept))
    return [*kept[:place], notice, *kept[place:]]


def _ordered(kept: Sequence[Message], beside: Sequence[Message]) -> tuple[Message, ...]:
    """System prompts first, then what stands beside, then the rest."""
    talk = next((n for n, message in enumerate(kept) if message.role != "system"), len(kept))
    return (*kept[:talk], *beside, *kept[talk:])


def _with_cue(
    messages: tuple[Message, ...],
    room: int,
    request: Request,
    search: Callable[[str], Sequence[tuple[str, str]]] | None,
) -> tuple[tuple[Message, ...], int]:
    """Quote, behind the stable prefix, what the prompt names and the context does not show."""
    if search is None or not request.cue or not request.prompt:
        return messages, 0
    prompt = clean_text(request.prompt)
    shown = "\n".join(message.content for message in messages)
    asked = newest_user(messages)
    before = "\n".join(m.content for n, m in enumerate(messages) if n != asked or prompt not in m.content)
    snippets = []
    for term in cue_terms(prompt, before):
        for where, text in search(term):
            snippet = cue_snippet(text, term)
            if snippet is not None and snippet not in shown:
                snippets.append((where, snippet))
                break
    cue = cue_message(snippets, shown)
    tokens = 0 if cue is None else sent_tokens(cue, sent(cue, request.format))
    if cue is None or tokens > room:
        return messages, 0
    placed = place_cue(messages, cue)
    return placed, tokens if len(placed) > len(messages) else 0

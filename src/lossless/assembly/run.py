"""Assembling a prompt: one read, a choice, a repair, an encoding. Nothing is written."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lossless import formats
from lossless.assembly import render, stubs
from lossless.assembly.atoms import atoms, unanswered
from lossless.assembly.candidates import Candidate, Policy
from lossless.assembly.cue import cue_message, cue_snippet, cue_terms, place_cue
from lossless.assembly.parts import newest_user
from lossless.assembly.payloads import payloads_of_turn
from lossless.assembly.plan import Chosen, Kept, choose
from lossless.assembly.policy_text import RECALL_POLICY
from lossless.assembly.receipt import Receipt, receipt
from lossless.assembly.relevance import relevance
from lossless.assembly.validate import make_valid, shape_of
from lossless.assembly.wire import Sent, clean_text, sent, with_few_marks
from lossless.errors import ArchiveCorrupt
from lossless.formats.summary_xml import render_summary
from lossless.model.context import MessageItem, SummaryItem, fresh_tail_start, newest_user_index
from lossless.model.messages import Reasoning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    from lossless.assembly.validate import Repair
    from lossless.files.vault import Vault
    from lossless.model.context import ContextItem
    from lossless.model.messages import Message, ModelIdentity
    from lossless.model.summaries import Summary
    from lossless.store.archive import Archive
    from lossless.store.context import Newest
    from lossless.store.rows import Sketch

#: Braces, role and quotes around a message, as JSON.
_FRAME_TOKENS = 10
#: Context items beyond this many budgets' worth of tokens are not even read. What a step may spare lies within.
_READ_SHARE = 1.3
#: How often a prompt that turns out larger than was reckoned is chosen anew, by its true sizes.
_MEASUREMENTS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What a host asks for."""

    budget: int
    format: str = "openai-chat"
    prompt: str | None = None
    fresh_tail_count: int = 64
    fresh_tail_max_tokens: int | None = None
    prompt_aware: bool = False
    #: Replace old tool results that lie in files by stubs.
    stub_payloads: bool = False
    #: The provider's tokens per estimated token.
    factor: float = 1.0
    timezone: tzinfo | None = None
    #: The model that will read the prompt; only its own thinking is replayed to it.
    model: ModelIdentity | None = None
    allow_trailing_assistant: bool = False
    #: Whether to quote what the prompt names and the context does not show.
    cue: bool = True


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


@dataclass(frozen=True, slots=True)
class _Material:
    """Everything that was read, in one snapshot."""

    items: tuple[ContextItem, ...]
    #: The weight of older items that were not read because they cannot fit.
    border: int
    stored: Mapping[int, Sketch]
    summaries: Mapping[str, Summary]
    pins: tuple[render.Pin, ...]
    brief: render.FocusBrief | None
    newest_seqs: Mapping[str, int]
    #: Summaries that the brief cannot know of, whatever their places say.
    newcomers: frozenset[str]
    files: Mapping[str, tuple[int, str]]
    #: Messages of the newest turn with their payloads put back, by ordinal.
    payloads: Mapping[int, Message]


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
        material = _read(archive, conversation_id, request, vault)
    items, covered = _with_focus(material)
    rendered = {item.ordinal: _rendered(item, material, request) for item in items}
    beside, dropped_pins = _beside(material, request)
    beside_tokens = sum(sent(message, request.format).tokens for message in beside)
    policy = Policy(
        request.budget,
        tail_start=fresh_tail_start(items, request.fresh_tail_count, request.fresh_tail_max_tokens),
        reserved=beside_tokens,
        factor=request.factor,
        is_prompt_aware=request.prompt_aware and bool(request.prompt),
        border=material.border,
    )
    desk = _Desk(material, request, rendered, beside)
    candidates = _candidates(items, rendered, material, request)
    prompt, mending = desk.prompt(candidates, policy), 0
    while prompt.tokens > policy.capacity and prompt.mending > mending:
        mending = prompt.mending
        prompt = desk.prompt(candidates, replace(policy, reserved=beside_tokens + mending))
    final, cue_tokens = _with_cue(prompt.messages, policy.capacity - prompt.tokens, request, search)
    wire = desk.wire(final) if cue_tokens else prompt.wire
    left_out = [(pin.id, "no room among the pins") for pin in dropped_pins]
    left_out += [(summary_id, f"covered by {material.brief.id}") for summary_id in covered if material.brief]
    extras = {"pins and focus": beside_tokens, "cue": cue_tokens}
    made = receipt(prompt.chosen, policy, extras=extras, left_out=left_out, repairs=prompt.repairs)
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

    material: _Material
    request: Request
    rendered: dict[int, Message]
    beside: Sequence[Message]
    #: By the identity of the message, which each entry keeps alive.
    measured: dict[int, Sent] = field(default_factory=dict)

    def prompt(self, candidates: Sequence[Candidate], policy: Policy) -> _Prompt:
        """What fits, mended and measured."""
        chosen, kept, tokens = self._fitting(candidates, policy)
        valid = make_valid(
            _ordered(kept, self.beside),
            self.request.format,
            model=self.request.model,
            allow_trailing_assistant=self.request.allow_trailing_assistant,
            answered_elsewhere=_answered_elsewhere(self.material),
        )
        whole = sum([self._sent(message).tokens for message in valid.messages])
        meant = tokens + sum(self._sent(message).tokens for message in self.beside)
        return _Prompt(chosen, valid.messages, valid.repairs, self.wire(valid.messages), whole, whole - meant)

    def wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages as they are sent."""
        joined = formats.join([self._sent(message).written for message in messages], self.request.format)
        return with_few_marks(joined) if self.request.format == "anthropic" else joined

    def _sent(self, message: Message) -> Sent:
        known = self.measured.get(id(message))
        if known is None:
            known = self.measured[id(message)] = sent(message, self.request.format)
        return known

    def _fitting(self, candidates: Sequence[Candidate], policy: Policy) -> tuple[Chosen, list[Message], int]:
        """A choice that fits by its true sizes, as messages; what is chosen by estimates may be larger."""
        chosen = choose(candidates, policy)
        for _ in range(_MEASUREMENTS):
            kept = self._built(chosen)
            tokens = sum([self._sent(message).tokens for message in kept])
            if tokens <= policy.limit:
                break
            again = choose([self._as_measured(candidate) for candidate in candidates], policy)
            if again.kept == chosen.kept:
                break
            chosen = again
        return chosen, kept, tokens

    def _as_measured(self, candidate: Candidate) -> Candidate:
        known = self.measured.get(id(self.rendered[candidate.item.ordinal]))
        return candidate if known is None else replace(candidate, tokens=known.tokens)

    def _built(self, chosen: Chosen) -> list[Message]:
        """What was chosen, as messages: those in the very format that is asked for exactly as they came."""
        messages = []
        for kept in chosen.kept:
            item = kept.candidate.item
            message = self.rendered[item.ordinal]
            if kept.form != "verbatim":
                message = _formed(kept, message, self.material, self.request)
            elif message.body is None and isinstance(item, MessageItem):
                message = self.rendered[item.ordinal] = self._original(item, message)
            messages.append(message)
        return messages

    def _original(self, item: MessageItem, message: Message) -> Message:
        """A message as it came, where it came in the format that is asked for."""
        material, known = self.material, self.material.stored[item.message_id]
        is_own = known.message.format in (self.request.format, "plain")
        if known.skeleton is None or not is_own or item.ordinal in material.payloads or known.file_id in material.files:
            return message
        return _with_its_format(known.exact())


def _read(archive: Archive, conversation_id: int, request: Request, vault: Vault | None) -> _Material:
    whole = Policy(request.budget, 0, factor=request.factor)
    most = int(_READ_SHARE * whole.capacity) if not request.prompt_aware else sys.maxsize
    items, border = _on_a_step(archive.context.newest_items(conversation_id, most), whole.step)
    ids = [item.message_id for item in items if isinstance(item, MessageItem)]
    stored = archive.context.sketches(ids)
    names = [item.summary_id for item in items if isinstance(item, SummaryItem)]
    summaries = archive.summaries.many(names)
    _refuse_hanging(conversation_id, set(names).difference(summary.id for summary in summaries))
    _refuse_hanging(conversation_id, {f"msg#{id_}" for id_ in ids if id_ not in stored})
    brief = archive.beside.active_brief(conversation_id)
    file_ids = [known.file_id for known in stored.values() if known.file_id] if request.stub_payloads else []
    return _Material(
        items,
        border,
        stored,
        {summary.id: summary for summary in summaries},
        tuple(render.Pin(f"pin_{pin.id}", pin.content) for pin in archive.beside.pins(conversation_id)),
        _brief(brief) if brief else None,
        archive.beside.newest_seqs(conversation_id) if brief else {},
        archive.beside.newcomers(conversation_id, brief.id) if brief else frozenset(),
        archive.beside.files(file_ids) if file_ids else {},
        payloads_of_turn(archive, items, vault, whole.capacity // 2),
    )


def _refuse_hanging(conversation_id: int, lacking: set[str]) -> None:
    """A prompt without something that stands in the context is none."""
    if lacking:
        raise ArchiveCorrupt(
            f"the context of conversation {conversation_id} holds {min(lacking)}, which is not in the archive; "
            "`lcm doctor` says what is missing, `lcm restore` puts a backup back"
        )


def _on_a_step(newest: Newest, step: int) -> tuple[tuple[ContextItem, ...], int]:
    """What was read, without its oldest messages up to the next whole step; and the weight of all that is out."""
    border = newest.unread_tokens + _FRAME_TOKENS * newest.unread
    goal = -(-border // step) * step
    user = newest_user_index(newest.items) or 0
    items: list[ContextItem] = []
    for n, item in enumerate(newest.items):
        if border < goal and newest.first <= n < user and isinstance(item, MessageItem):
            border += _weight(item)
        else:
            items.append(item)
    return tuple(items), border


def _weight(item: ContextItem) -> int:
    """What an item counts for in steps: by what is stored of it, so that nothing else can change it."""
    return item.tokens + _FRAME_TOKENS


def _with_its_format(message: Message) -> Message:
    """Thinking without a format was stored by lossless-claw: it is OpenClaw's, and may be replayed there."""
    if message.format != "plain" or not any(isinstance(part, Reasoning) for part in message.parts):
        return message
    return replace(message, format="openclaw")


def _brief(row: Any) -> render.FocusBrief:
    return render.FocusBrief(
        row.id,
        row.prompt,
        row.content,
        row.tokens,
        row.target_tokens,
        row.created_at,
        row.covered_latest_at,
        row.covered_message_seq,
    )


def _with_focus(material: _Material) -> tuple[tuple[ContextItem, ...], tuple[str, ...]]:
    """The items without the summaries that an active focus brief stands for, and those summaries."""
    brief = material.brief
    if brief is None:
        return material.items, ()
    covered = tuple(
        item.summary_id
        for item in material.items
        if isinstance(item, SummaryItem)
        and item.summary_id not in material.newcomers
        and brief.covers(material.newest_seqs.get(item.summary_id), material.summaries[item.summary_id].latest_at)
    )
    if not covered:
        return material.items, ()
    kept = tuple(item for item in material.items if not (isinstance(item, SummaryItem) and item.summary_id in covered))
    return kept, covered


def _rendered(item: ContextItem, material: _Material, request: Request) -> Message:
    if isinstance(item, SummaryItem):
        return render.summary_message(render_summary(material.summaries[item.summary_id], request.timezone))
    if item.ordinal in material.payloads:
        return material.payloads[item.ordinal]
    stored = material.stored[item.message_id]
    if stored.file_id is not None and stored.file_id in material.files and stored.message.tool_results:
        size, summary = material.files[stored.file_id]
        return stubs.stub_file(stored.message, stored.file_id, size, summary)
    return _with_its_format(stored.message)


def _beside(material: _Material, request: Request) -> tuple[list[Message], tuple[render.Pin, ...]]:
    """What stands before the context whatever happens: pins, then the focus brief."""
    kept, dropped = render.choose_pins(material.pins, Policy(request.budget, 0, factor=request.factor).capacity)
    beside = []
    if (pins := render.pins_message(kept)) is not None:
        beside.append(pins)
    if material.brief is not None and _with_focus(material)[1]:
        beside.append(render.focus_message(material.brief, request.timezone or UTC))
    return beside, dropped


def _candidates(
    items: Sequence[ContextItem], rendered: Mapping[int, Message], material: _Material, request: Request
) -> list[Candidate]:
    messages = [rendered[item.ordinal] for item in items]
    groups, open_at = atoms(messages), unanswered(messages)
    scores: Sequence[float] = [0.0] * len(items)
    if request.prompt_aware and request.prompt:
        scores = relevance(request.prompt, [message.content for message in messages])
    sizes = [message.tokens + _FRAME_TOKENS for message in messages]
    user = newest_user_index(items) or 0
    is_long_turn = sum(sizes[user:]) > request.budget / request.factor / 2
    return [
        Candidate(
            item,
            sizes[n],
            _weight(item),
            covers_messages=_covered(item, material),
            score=scores[n],
            atom=groups[n],
            stub_tokens=_stub_tokens(item, messages[n], request) if is_long_turn else None,
            is_unanswered=n in open_at,
        )
        for n, item in enumerate(items)
    ]


def _covered(item: ContextItem, material: _Material) -> int:
    """How much history a summary stands for, by the tokens of the messages below it."""
    return material.summaries[item.summary_id].source_message_tokens if isinstance(item, SummaryItem) else 0


def _stub_tokens(item: ContextItem, message: Message, request: Request) -> int | None:
    if not isinstance(item, MessageItem) or not message.tool_results:
        return None
    return sent(stubs.stub_results(message, item.message_id), request.format).tokens


def _ordered(kept: Sequence[Message], beside: Sequence[Message]) -> tuple[Message, ...]:
    """System prompts first, then what stands beside, then the rest."""
    talk = next((n for n, message in enumerate(kept) if message.role != "system"), len(kept))
    return (*kept[:talk], *beside, *kept[talk:])


def _formed(kept: Kept, message: Message, material: _Material, request: Request) -> Message:
    item = kept.candidate.item
    if kept.form == "stub" and isinstance(item, MessageItem):
        return stubs.stub_results(message, item.message_id)
    if kept.form == "run":
        ids = [c.item.message_id for c in kept.stands_for if isinstance(c.item, MessageItem)]
        return stubs.run_stub(ids, [c.item.summary_id for c in kept.stands_for if isinstance(c.item, SummaryItem)])
    if kept.form == "stand-in" and kept.candidate.covered_by is not None:
        summary = material.summaries[kept.candidate.covered_by.summary_id]
        return render.summary_message(render_summary(summary, request.timezone))
    return message


def _answered_elsewhere(material: _Material) -> frozenset[str]:
    """Call ids whose result is in the context, whether or not it was chosen."""
    found = (part.call_id for known in material.stored.values() for part in known.message.tool_results)
    return frozenset(call_id for call_id in found if call_id)


def _with_cue(
    messages: tuple[Message, ...],
    room: int,
    request: Request,
    search: Callable[[str], Sequence[tuple[str, str]]] | None,
) -> tuple[tuple[Message, ...], int]:
    """Quote, behind the stable prefix, what the prompt names and the context does not show."""
    if search is None or not request.cue or not request.prompt:
        return messages, 0
    shown = "\n".join(message.content for message in messages)
    asked = newest_user(messages)
    before = "\n".join(m.content for n, m in enumerate(messages) if n != asked or request.prompt not in m.content)
    snippets = []
    for term in cue_terms(request.prompt, before):
        for where, text in search(term):
            snippet = cue_snippet(text, term)
            if snippet is not None and snippet not in shown:
                snippets.append((where, snippet))
                break
    cue = cue_message(snippets, shown)
    tokens = 0 if cue is None else sent(cue, request.format).tokens
    if cue is None or tokens > room:
        return messages, 0
    placed = place_cue(messages, cue)
    return placed, tokens if len(placed) > len(messages) else 0

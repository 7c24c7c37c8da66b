"""Assembles a prompt: one read, a choice within the budget, repairs, recall cue, encoding, and a receipt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import formats
from lossless.context import render
from lossless.context.choose import (
    OMITTED_WITHOUT_TRACE,
    SHARE_TARGETS,
    KeptItem,
    PromptSelection,
    SelectionPolicy,
    choose,
)
from lossless.context.read import ContextSnapshot, build_candidates, read_snapshot
from lossless.context.repair import MessageRepair, make_valid, provider_rules
from lossless.formats.synthetic import CUE_CLOSE, CUE_OPEN, quoted_line
from lossless.model.context import (
    ContextItem,
    EvidenceBlock,
    EvidenceNeed,
    MessageItem,
    SummaryItem,
    fresh_tail_start,
    newest_user_index,
    prompt_tokens,
)
from lossless.model.messages import Message, ModelIdentity
from lossless.model.search_text import load_patterns, unspaced_runs

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.formats import EncodedMessage
    from lossless.model.budget import HistoryBudget
    from lossless.store.archive import Archive

__all__ = ["AssembleRequest", "Assembled", "Receipt", "assemble"]


@dataclass(frozen=True, slots=True)
class AssembleRequest:
    """A host's request for a prompt."""

    budget: int
    format: str = "openai-chat"
    prompt: str | None = None
    fresh_tail_count: int = 64
    fresh_tail_max_tokens: int | None = None
    prompt_aware: bool = False
    #: Replace old tool results that are stored in files by stubs.
    stub_payloads: bool = False
    #: The provider's tokens per estimated token.
    factor: float = 1.0
    timezone: tzinfo | None = None
    #: The model that will read the prompt; only its own thinking is replayed to it.
    model: ModelIdentity | None = None
    allow_trailing_assistant: bool = False
    #: Whether to quote what the prompt names and the context does not show.
    cue: bool = True
    #: Whether the model has the recall tools, so that texts may point to them.
    recall: bool = True
    #: What the budget was computed from.
    history: HistoryBudget | None = None
    #: The maximum tokens of quotations before a user message; 0 for none.
    evidence_tokens: int = 0


#: Parts of a prompt besides the context, and how many are named when it is too large.
_EXTRAS = ("pins and focus", "cue", "evidence")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was assembled. Tokens are estimates; multiplied by `factor` they are the provider's."""

    budget: int
    factor: float
    #: Available and used tokens, as estimates.
    capacity: int
    tokens: int
    #: Ids in the prompt's order with their forms.
    included: tuple[tuple[str, str], ...]
    #: Omitted ids, with the reason.
    left_out: tuple[tuple[str, str], ...]
    tokens_by_kind: Mapping[str, int]
    #: Lane → share of the available tokens; see `SHARE_TARGETS`.
    shares: Mapping[str, float]
    repairs: tuple[MessageRepair, ...] = ()
    #: The tokens of each included item in its form.
    sizes: tuple[int, ...] = ()
    #: What `capacity` was computed from; None when unknown.
    history: HistoryBudget | None = None
    #: Older messages that were not read because no summary covers them and they cannot fit.
    unread: int = 0
    #: Summaries with a line about later changes to their messages.
    corrected: tuple[str, ...] = ()
    #: Messages quoted before a user message, and why.
    evidence: tuple[tuple[str, str], ...] = ()

    @property
    def history_budget(self) -> int:
        """The conversation's share of the window, in estimated tokens."""
        return self.capacity if self.history is None else self.history.tokens

    @property
    def unstated(self) -> int:
        """How many items are omitted without a replacement; a line in the prompt says so."""
        return self.unread + sum(reason in OMITTED_WITHOUT_TRACE for _, reason in self.left_out)

    @property
    def fits(self) -> bool:
        return self.tokens <= self.capacity

    @property
    def over(self) -> int:
        """By how many tokens the prompt exceeds its limit."""
        return max(0, self.tokens - self.capacity)

    @property
    def shortened(self) -> tuple[str, ...]:
        """Ids of messages that are shown in part, or as a reference to their file, to save space."""
        return tuple(id for id, form in self.included if form in ("shortened", "reference"))

    @property
    def why_over(self) -> str:
        """Why the prompt exceeds its limit; empty when it does not."""
        if self.fits:
            return ""
        sizes = [*zip((id for id, _ in self.included), self.sizes, strict=False)]
        sizes += [(kind, tokens) for kind, tokens in self.tokens_by_kind.items() if kind in _EXTRAS]
        largest = sorted(sizes, key=lambda size: -size[1])[:_NAMED]
        named = ", ".join(f"{id} takes {tokens:,}" for id, tokens in largest)
        return (
            f"{self.tokens:,} tokens where {self.capacity:,} fit, and nothing else can be dropped or shortened: {named}"
        )

    def __str__(self) -> str:
        lines = [f"{self.tokens:,} of {self.capacity:,} tokens{'' if self.fits else ' (over budget)'}"]
        for lane, share in self.shares.items():
            low, high = SHARE_TARGETS.get(lane, (0.0, 0.0))
            aim = f" (aim {low:.0%} to {high:.0%})" if high else ""
            lines.append(f"  {lane}: {share:.1%}{aim}")
        lines += [f"  {kind}: {tokens:,} tokens" for kind, tokens in self.tokens_by_kind.items()]
        if self.history is not None and self.history.tokens != self.history.window:
            lines.append(f"  history budget: {self.history}")
        lines += [f"  left out {self.unread:,} older messages: over budget"] if self.unread else []
        lines += [f"  shown in part {id}" for id in self.shortened]
        lines += [f"  corrected {id}" for id in self.corrected]
        lines += [f"  quoted {id}: {why}" for id, why in self.evidence]
        lines += [f"  left out {id}: {reason}" for id, reason in self.left_out]
        lines += [f"  repaired: {repair.what} ({repair.count})" for repair in self.repairs]
        return "\n".join(lines)


def make_receipt(
    chosen: PromptSelection,
    policy: SelectionPolicy,
    extras: Mapping[str, int],
    left_out: Sequence[tuple[str, str]],
    history: HistoryBudget | None = None,
    **more: Any,
) -> Receipt:
    """The receipt for a selection; `extras` are tokens by kind besides it (pins, focus, cue), `more` further fields."""
    extra_tokens = {kind: tokens for kind, tokens in extras.items() if tokens}
    fields = {"tokens": chosen.tokens + sum(extra_tokens.values()), "history": history} | more
    return Receipt(
        budget=policy.budget if history is None else history.window,
        factor=policy.factor if history is None else history.factor,
        capacity=policy.capacity,
        included=tuple((kept.candidate.id, kept.form) for kept in chosen.kept),
        left_out=(*((candidate.id, reason) for candidate, reason in chosen.left_out), *left_out),
        tokens_by_kind={**chosen.tokens_by_kind, **extra_tokens},
        shares=chosen.shares,
        sizes=tuple(kept.tokens for kept in chosen.kept),
        **fields,
    )


MAX_CUE_TERMS = 4
MAX_CUE_SNIPPETS = 4
MAX_CUE_SNIPPET_CHARS = 1200
#: How much of a prompt is searched; a pasted log is not a question.
_PROMPT_CHARS = 20_000

_CUE, _SECRETS = load_patterns(__package__)["cue"], load_patterns(__package__)["secrets"]
_UNSPACED_CHARS = range(3, 13)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def looks_secret(text: str) -> bool:
    """Whether a text contains a secret, or a name refers to one.

    >>> [looks_secret(t) for t in ("DB_PASSWORD", "apiToken", "MAX_RETRIES", "sk-abcdefghijklmnop")]
    [True, True, False, True]
    """
    folded = text.casefold()
    if any(sign in folded for sign in _SECRETS["signs"]) and _SECRETS["value"].search(text):
        return True
    is_name = len(text) <= 80 and " " not in text
    return is_name and bool(_SECRETS["name"].search(_HUMP.sub("_", text)))


def cue_terms(prompt: str, shown: str = "", limit: int = MAX_CUE_TERMS) -> tuple[str, ...]:
    """Names in the prompt that `shown` does not contain: identifiers, paths, quotations, unspaced words.

    >>> cue_terms('Why does MAX_RETRIES in src/queue.py say "never again"?', "src/queue.py")
    ('MAX_RETRIES', 'never again')
    """
    folded = shown.casefold()
    found: dict[str, None] = {}
    for term in _named_things(prompt[:_PROMPT_CHARS]):
        term = term.strip().rstrip(".,:;!?")
        is_part = any(term in other for other in found)
        if len(term) > 1 and not is_part and term.casefold() not in folded and not looks_secret(term):
            found[term] = None
        if len(found) == limit:
            break
    return tuple(found)


def _named_things(prompt: str) -> Iterator[str]:
    most_distinctive, *others = _CUE["names"].values()
    yield from most_distinctive.findall(prompt)
    yield from (next(filter(None, groups)) for groups in _CUE["quoted"].findall(prompt))
    for pattern in others:
        yield from pattern.findall(prompt)
    words = [word for run in unspaced_runs(prompt) for word in _CUE["joints"].split(run)]
    yield from sorted((word for word in words if len(word) in _UNSPACED_CHARS), key=len, reverse=True)


def cue_snippet(text: str, term: str) -> str | None:
    """The sentence of `text` with the term, cut to `MAX_CUE_SNIPPET_CHARS`; None without it or if secret."""
    max_chars = MAX_CUE_SNIPPET_CHARS
    match = re.search(re.escape(term), text, re.IGNORECASE)
    if match is None:
        return None
    at = match.start()
    window_start = max(0, at - max_chars)
    window = text[window_start : at + len(term) + max_chars]
    place = at - window_start
    borders = [border.span() for border in _CUE["sentence_end"].finditer(window)]
    start = max((after for _, after in borders if after <= place), default=0)
    end = min((before for before, _ in borders if before >= place + len(term)), default=len(window))
    if end - start > max_chars:
        start = max(start, place - (max_chars - len(term)) // 2)
        end = min(end, start + max_chars)
    sentence = window[start:end].strip()
    return None if not sentence or looks_secret(sentence) else sentence


def cue_message(snippets: Iterable[tuple[str, str]], shown: str = "") -> Message | None:
    """The cue for (source, sentence) pairs that are not shown yet; None when none is left."""
    lines: dict[str, str] = {}
    for where, sentence in snippets:
        if sentence not in shown and sentence not in lines and len(lines) < MAX_CUE_SNIPPETS:
            lines[sentence] = quoted_line(where, sentence)
    if not lines:
        return None
    body = "\n".join(lines.values())
    return Message(role="user", content=f"{CUE_OPEN}{body}{CUE_CLOSE}")


def place_cue(messages: Sequence[Message], cue: Message) -> tuple[Message, ...]:
    """The messages with the cue directly before the newest user message; at the end when there is none.

    Unchanged when that message also has tool results: nothing may come between those and their calls.
    """
    at = render.newest_user(tuple(messages))
    at = len(messages) if at is None else at
    if at < len(messages) and messages[at].tool_results:
        return tuple(messages)
    return (*messages[:at], cue, *messages[at:])


#: All evidence together takes at most this share of the history budget; below this many tokens none is chosen.
EVIDENCE_SHARE = 0.2
_LEAST_EVIDENCE = 120
#: How often a prompt that turns out too large is chosen again with measured sizes.
_MAX_REMEASURES = 8
#: A smaller prompt gets no line about omitted items.
_LEAST_FOR_NOTICE = 2_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt: messages in the host's format, their estimated tokens, and how they were chosen."""

    messages: list[Any]
    tokens: int
    receipt: Receipt
    #: Text to append to the system prompt: constant bytes.
    system_prompt: str = render.RECALL_POLICY
    #: The conversation's own system prompt, in a format that keeps it separate from the messages.
    system: str = ""
    #: The same messages as values, before encoding.
    parts: tuple[Message, ...] = ()
    #: The quotations in it, oldest first.
    evidence: tuple[EvidenceBlock, ...] = ()


#: The source of evidence: blocks chosen since the last fold, and what finds one for the newest user message.
EvidenceSource: TypeAlias = "tuple[Sequence[EvidenceBlock], Callable[[EvidenceNeed], EvidenceBlock | None]]"


def assemble(
    archive: Archive,
    conversation_id: int,
    request: AssembleRequest,
    search: Callable[[str], Sequence[tuple[str, str]]] | None = None,
    vault: Vault | None = None,
    evidence: EvidenceSource | None = None,
) -> Assembled:
    """The prompt for the next turn: `[system] [pins] summaries … fresh tail`, within the budget.

    `search` finds (source, text) pairs for a term; without it there is no recall cue. `vault` restores the payloads of
    the newest turn. `evidence` is quoted before the user message that it was chosen for, in otherwise unused space.
    """
    with archive.reading():
        material = read_snapshot(archive, conversation_id, request, vault)
    items, covered = material.with_focus()
    additions, dropped_pins = _pins_and_brief(material, covered)
    rendered = {item.ordinal: material.rendered(item) for item in items}
    builder = PromptBuilder(material, request, items, rendered, additions)
    addition_tokens = sum(map(builder.size, additions))
    is_capped = request.fresh_tail_max_tokens is not None
    policy = SelectionPolicy(
        request.budget,
        tail_start=fresh_tail_start(items, request.fresh_tail_count, request.fresh_tail_max_tokens),
        reserved=addition_tokens,
        factor=request.factor,
        is_prompt_aware=request.prompt_aware and bool(request.prompt),
        border=material.border,
        keeps_tail=not is_capped,
        notice_tokens=render.NOTICE_TOKENS if is_capped and request.budget >= _LEAST_FOR_NOTICE else 0,
    )
    prompt, quoted = builder.with_evidence(policy, evidence)
    final, cue_tokens = prompt.messages, 0
    if search is not None and not quoted and request.cue and request.prompt:
        final, cue_tokens = builder.with_cue(final, policy.capacity - prompt.tokens, request.prompt, search)
    wire = builder.wire(final)
    left_out = [(id_, "no room among the pins") for id_, _ in dropped_pins]
    left_out += [(summary_id, f"covered by {material.brief.id}") for summary_id in covered if material.brief]
    shown = {kept.candidate.id for kept in prompt.chosen.kept}
    made = make_receipt(
        prompt.chosen,
        policy,
        {"pins and focus": addition_tokens, "cue": cue_tokens, "evidence": builder.evidence_tokens(quoted)},
        left_out,
        request.history,
        tokens=prompt.tokens + cue_tokens,
        repairs=prompt.repairs,
        unread=material.unread,
        corrected=tuple(id_ for id_ in material.changes if id_ in shown),
        evidence=tuple((f"msg#{quote.message_id}", quote.why) for block in quoted for quote in block.quotes),
    )
    system = ""
    if provider_rules(request.format).system_apart:
        head = takewhile(lambda message: message.role == "system", final)
        if system := "\n\n".join(render.clean_text(message.content) for message in head):
            wire = [message for message in wire if message.get("role") != "system"]
    return Assembled(wire, made.tokens, made, system=system, parts=final, evidence=quoted)


@dataclass(frozen=True, slots=True)
class _BuiltPrompt:
    """A selection as it would be sent."""

    chosen: PromptSelection
    messages: tuple[Message, ...]
    repairs: tuple[MessageRepair, ...]
    tokens: int
    #: Tokens added by repairs.
    mending: int
    #: The chosen messages, and the line about omitted ones.
    kept: Sequence[Message]
    notice: Message | None


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds a prompt; caches what was rendered and measured."""

    material: ContextSnapshot
    request: AssembleRequest
    items: Sequence[ContextItem]
    rendered: dict[int, Message]
    additions: Sequence[Message]
    #: By the identity of the message, which each entry keeps alive.
    measured: dict[int, tuple[Message, EncodedMessage]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    #: Items in shorter forms, by ordinal, form and size.
    formed: dict[tuple[int, str, int], Message] = field(default_factory=dict)
    blocks: dict[str, Message] = field(default_factory=dict)

    def with_evidence(
        self, policy: SelectionPolicy, source: EvidenceSource | None
    ) -> tuple[_BuiltPrompt, tuple[EvidenceBlock, ...]]:
        """What fits, and evidence in the remaining space: while everything fits, nothing is dropped for it.

        Evidence that no longer fits is removed all at once, and none is chosen while less than the maximum share of
        evidence is free. So it is removed at most once before the next fold. Where summaries are shown and items are
        left out anyway, one or two of the steps in which they are left out are kept free for it, unless the newest turn
        is long, and it leaves with the messages that it was chosen for.
        """
        if source is None:
            return self.fitting_prompt(policy), ()
        earlier, find = source
        cap = int(EVIDENCE_SHARE * policy.capacity)
        turn = prompt_tokens(self.items[newest_user_index(self.items) or 0 :])
        is_over = self.material.unread > 0 or prompt_tokens(self.items) > policy.limit
        is_folded = any(isinstance(item, SummaryItem) for item in self.items)
        is_full = is_over and is_folded and 2 * turn <= policy.capacity
        if is_full:
            cap = min(cap, policy.step * math.ceil(self.request.evidence_tokens / policy.step))
        prompt = self.fitting_prompt(replace(policy, reserved=policy.reserved + cap) if is_full else policy)
        space = policy.capacity - prompt.tokens
        cap = min(cap, space) if is_full else cap
        places = {item.message_id for item in _messages_in(prompt.chosen) if self._may_precede(item)}
        known = [block for block in earlier if block.quotes and (block.message_id or 0) in {0, *places}]
        known = known if self.evidence_tokens(known) <= min(cap, space) else []
        taken = self.evidence_tokens(known) if is_full else 0
        limit = min(self.request.evidence_tokens, cap - taken)
        need = self._need(prompt.chosen, limit) if space >= cap else None
        if need is not None and need.message_id not in {block.message_id for block in earlier}:
            staying = known if is_full else self._newest_fitting(known, cap - need.max_tokens)
            quoted = {quote.message_id for block in staying for quote in block.quotes}
            new = find(replace(need, shown=need.shown | quoted))
            if new is not None and self.evidence_tokens([new]) <= need.max_tokens:
                known = [*staying, new]
        if not known:
            return prompt, ()
        made = self._mended(prompt.chosen, prompt.kept, prompt.notice, known)
        return (made, tuple(known)) if made.tokens <= policy.capacity else (prompt, ())

    def _need(self, chosen: PromptSelection, max_tokens: int) -> EvidenceNeed | None:
        """What evidence is needed for: the newest user message, stored or not; None without one."""
        items = _messages_in(chosen)
        newest = next((item for item in reversed(items) if item.role == "user"), None)
        words, coming = "" if newest is None else self.rendered[newest.ordinal].content, self.request.prompt or ""
        id_ = None if newest is None else newest.message_id
        if coming and " ".join(coming.split()) not in " ".join(words.split()):
            id_, words = None, coming
        elif newest is None or not self._may_precede(newest):
            return None
        if not words.strip() or max_tokens < _LEAST_EVIDENCE:
            return None
        is_folded = len(items) < len(self.items) or bool(self.material.unread)
        return EvidenceNeed(id_, words, frozenset(item.message_id for item in items), max_tokens, is_folded)

    def _may_precede(self, item: MessageItem) -> bool:
        """Whether something may precede a message: not between calls and their results."""
        return item.role == "user" and not self.rendered[item.ordinal].tool_results

    def _newest_fitting(self, blocks: Sequence[EvidenceBlock], max_tokens: int) -> list[EvidenceBlock]:
        """All blocks, or, when they are too large together, the newest that fit into half the space."""
        if self.evidence_tokens(blocks) <= max_tokens:
            return list(blocks)
        sizes = accumulate(self.evidence_tokens([block]) for block in reversed(blocks))
        fitting = sum(size <= max_tokens // 2 for size in sizes)
        return list(blocks[len(blocks) - fitting :])

    def evidence_tokens(self, blocks: Sequence[EvidenceBlock]) -> int:
        return sum(self.size(self._block(block)) for block in blocks if block.quotes)

    def _block(self, block: EvidenceBlock) -> Message:
        return self.blocks.setdefault(block.content, Message(role="user", content=block.content))

    def fitting_prompt(self, policy: SelectionPolicy) -> _BuiltPrompt:
        """What fits, with space for repairs, and for what shorter forms take beyond their estimate."""
        prompt, mending = self.prompt(policy), 0
        while prompt.tokens > policy.capacity and prompt.mending > mending:
            mending = prompt.mending
            prompt = self.prompt(replace(policy, reserved=policy.reserved + mending))
        spare = max(0, mending)
        for _ in range(_MAX_REMEASURES):
            if (over := prompt.tokens - policy.capacity) <= 0:
                break
            spare = 2 * spare + over
            prompt = self.prompt(replace(policy, reserved=policy.reserved + spare))
        return prompt

    def prompt(self, policy: SelectionPolicy) -> _BuiltPrompt:
        """What fits, repaired and measured."""
        chosen, kept, tokens = self._fitting(policy)
        notice = self._notice(chosen) if policy.notice_tokens else None
        if notice is not None and tokens + self.size(notice) > policy.limit:  # what was reserved for it is taken
            fuller = replace(policy, reserved=policy.reserved + self.size(notice))
            chosen, kept, tokens = self._fitting(fuller)
            notice = self._notice(chosen)
        fits = notice is not None and tokens + self.size(notice) <= policy.limit
        return self._mended(chosen, kept, notice if fits else None)

    def _mended(
        self,
        chosen: PromptSelection,
        kept: Sequence[Message],
        notice: Message | None,
        evidence: Sequence[EvidenceBlock] = (),
    ) -> _BuiltPrompt:
        """A selection with its extras, as a strict provider accepts it."""
        notices = [] if notice is None else [notice]
        additions = [*self.additions, *notices, *map(self._block, evidence)]
        messages, repairs = make_valid(
            self._inserted(chosen, kept, notices, evidence),
            self.request.format,
            model=self.request.model,
            allow_trailing_assistant=self.request.allow_trailing_assistant,
            answered_elsewhere=self.material.answered,
        )
        whole, meant = (sum(map(self.size, some)) for some in (messages, (*kept, *additions)))
        return _BuiltPrompt(chosen, messages, repairs, whole, whole - meant, kept, notice)

    def _inserted(
        self,
        chosen: PromptSelection,
        kept: Sequence[Message],
        notices: list[Message],
        evidence: Iterable[EvidenceBlock],
    ) -> tuple[Message, ...]:
        """System prompts, the extras, then the rest, with the line about omitted items before the first verbatim
        message, and evidence directly before its user message, or at the end while that is not stored.
        """
        blocks = {block.message_id: self._block(block) for block in evidence}
        found: list[Message] = []
        for one, message in zip(chosen.kept, kept, strict=True):
            item = one.candidate.item
            if isinstance(item, MessageItem) and item.role != "system":
                found += notices
                found += [blocks[item.message_id]] if item.message_id in blocks else []
                notices = []
            found.append(message)
        found += notices
        found += [blocks[None]] if None in blocks else []
        talk = next((n for n, message in enumerate(found) if message.role != "system"), len(found))
        return (*found[:talk], *self.additions, *found[talk:])

    def _notice(self, chosen: PromptSelection) -> Message | None:
        """The line about items omitted without a replacement, if there are any."""
        out = [candidate.item for candidate, reason in chosen.left_out if reason in OMITTED_WITHOUT_TRACE]
        names = [item.summary_id for item in out if isinstance(item, SummaryItem)]
        count = len(out) - len(names) + self.material.unread
        if not count and not names:
            return None
        following = next((item.message_id for item in _messages_in(chosen) if item.role != "system"), None)
        return render.omission_notice(count, following, names, recall=self.request.recall)

    def wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        joined = formats.join([self._sent(message) for message in messages], self.request.format)
        return render.limit_cache_marks(joined) if self.request.format == "anthropic" else joined

    def _sent(self, message: Message) -> EncodedMessage:
        known = self.measured.get(id(message))
        if known is None:
            known = self.measured[id(message)] = (message, render.encode_for_model(message, self.request.format))
        return known[1]

    def size(self, message: Message) -> int:
        """The tokens of a message as sent; only messages made for this prompt are estimated now."""
        known = self.sizes.get(id(message))
        if known is None:
            known = self.sizes[id(message)] = render.tokens_as_sent(message, self._sent(message))
        return known

    def _fitting(self, policy: SelectionPolicy) -> tuple[PromptSelection, list[Message], int]:
        """A selection that fits by its true sizes, as messages; one chosen by estimates may be larger."""
        candidates = build_candidates(self.material, policy, self.items, self.rendered)
        chosen = choose(candidates, policy)
        for _ in range(_MAX_REMEASURES):
            kept, tokens = self._built(chosen)
            if tokens <= policy.limit:
                return chosen, kept, tokens
            messages = [self.rendered[candidate.item.ordinal] for candidate in candidates]
            sizes = [
                self.size(message) if id(message) in self.measured else candidate.tokens
                for candidate, message in zip(candidates, messages, strict=True)
            ]
            # What fits by estimates has no shorter forms yet.
            if sum(candidate.tokens for candidate in candidates) <= policy.limit < sum(sizes):
                candidates = build_candidates(self.material, policy, self.items, self.rendered, sizes)
            measured = [replace(candidate, tokens=size) for candidate, size in zip(candidates, sizes, strict=True)]
            again = choose(measured, policy)
            if again.kept == chosen.kept:
                break
            chosen = again
        sizes = [self.size(self._whole(item)) for item in self.items]
        chosen = choose(build_candidates(self.material, policy, self.items, self.rendered, sizes), policy)
        return chosen, *self._built(chosen)

    def _built(self, chosen: PromptSelection) -> tuple[list[Message], int]:
        """The chosen items as messages, and their tokens."""
        messages = [
            self._whole(kept.candidate.item) if kept.form == "verbatim" else self._formed(kept) for kept in chosen.kept
        ]
        return messages, sum(map(self.size, messages))

    def _whole(self, item: ContextItem) -> Message:
        """An item in full; a message in the requested format is its original object."""
        message = self.rendered[item.ordinal]
        if message.body is None and isinstance(item, MessageItem):
            message = self.rendered[item.ordinal] = self.material.exact(item, message)
        if id(message) not in self.sizes:
            estimate = self.material.estimate(item, message)
            self.sizes[id(message)] = render.tokens_as_sent(message, self._sent(message), estimate)
        return message

    def _formed(self, kept: KeptItem) -> Message:
        ordinal = kept.candidate.item.ordinal
        key = (ordinal, kept.form, len(kept.stands_for) or kept.tokens)
        if key not in self.formed:
            self.formed[key] = self.material.formed(kept, self.rendered[ordinal])
        return self.formed[key]

    def with_cue(
        self, messages: tuple[Message, ...], space: int, asked: str, search: Callable[[str], Sequence[tuple[str, str]]]
    ) -> tuple[tuple[Message, ...], int]:
        """Quotes, after the stable prefix, what the prompt names and the context does not show; and their tokens."""
        prompt = render.clean_text(asked)
        shown = "\n".join(message.content for message in messages)
        newest = render.newest_user(messages)
        before = "\n".join(m.content for n, m in enumerate(messages) if n != newest or prompt not in m.content)
        snippets = []
        for term in cue_terms(prompt, before):
            for where, text in search(term):
                snippet = cue_snippet(text, term)
                if snippet is not None and snippet not in shown:
                    snippets.append((where, snippet))
                    break
        cue = cue_message(snippets, shown)
        if cue is None or self.size(cue) > space:
            return messages, 0
        placed = place_cue(messages, cue)
        return placed, self.size(cue) if len(placed) > len(messages) else 0


def _pins_and_brief(material: ContextSnapshot, covered: Sequence[str]) -> tuple[list[Message], Sequence[render.Pin]]:
    """What always precedes the context: pins, then the focus brief, if it replaces summaries; and the other pins."""
    request = material.request
    capacity = SelectionPolicy(request.budget, 0, factor=request.factor).capacity
    kept, dropped = render.choose_pins(material.pins, capacity)
    additions = [] if (pins := render.pins_message(kept)) is None else [pins]
    if material.brief is not None and covered:
        changes = [material.changes[id_] for id_ in covered if id_ in material.changes]
        additions.append(render.focus_message(material.brief, request.timezone or UTC, changes))
    return additions, dropped


def _messages_in(chosen: PromptSelection) -> list[MessageItem]:
    items = (kept.candidate.item for kept in chosen.kept)
    return [item for item in items if isinstance(item, MessageItem)]


#: How many omitted ids are recorded per prompt.
_MAX_LEFT_OUT = 50
_MESSAGE_ID = re.compile(r"msg#(\d+)")


def receipt_detail(receipt: Receipt) -> dict[str, Any]:
    """The stored form of a receipt: ids, sizes and reasons."""
    return {
        "kinds": dict(receipt.tokens_by_kind),
        "included": _in_runs(receipt.included),
        "left_out": [list(pair) for pair in receipt.left_out[:_MAX_LEFT_OUT]],
        "evidence": [list(pair) for pair in receipt.evidence],
    }


def _in_runs(included: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Ids with their forms; consecutive messages of one form are merged.

    >>> _in_runs([("sum_1", "verbatim"), ("msg#4", "verbatim"), ("msg#5", "verbatim"), ("msg#6", "stub")])
    [['sum_1', 'verbatim'], ['msg#4…msg#5', 'verbatim'], ['msg#6', 'stub']]
    """
    runs: list[list[str]] = []
    last: tuple[int, str] | None = None
    for id_, form in included:
        found = _MESSAGE_ID.fullmatch(id_)
        number = int(found[1]) if found else 0
        if found and last == (number - 1, form):
            runs[-1][0] = f"{runs[-1][0].partition('…')[0]}…{id_}"
        else:
            runs.append([id_, form])
        last = (number, form) if found else None
    return runs

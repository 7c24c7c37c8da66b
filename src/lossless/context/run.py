"""Assemble a prompt: one read, a choice within the budget, repairs, the recall cue, encoding, and a receipt that
says what is in it and why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Protocol

from lossless import formats
from lossless.context import render
from lossless.context.choose import OMITTED_WITHOUT_TRACE, SHARE_TARGETS, PromptSelection, SelectionPolicy, choose
from lossless.context.read import CandidateBuilder, ContextSnapshot, read_snapshot
from lossless.context.render import (
    NOTICE_TOKENS,
    RECALL_POLICY,
    EncodedForModel,
    clean_text,
    encode_for_model,
    estimated_tokens,
    limit_cache_marks,
    newest_user,
    omission_notice,
    tokens_as_sent,
)
from lossless.context.repair import make_valid, provider_rules
from lossless.formats.synthetic import CUE_CLOSE, CUE_OPEN, quoted_line
from lossless.model.context import EvidenceNeed, MessageItem, SummaryItem, fresh_tail_start
from lossless.model.messages import Message
from lossless.model.search_text import unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from lossless.context.choose import ContextCandidate, KeptItem
    from lossless.context.repair import MessageRepair
    from lossless.files.vault import Vault
    from lossless.model.budget import HistoryBudget
    from lossless.model.context import ContextItem, EvidenceBlock
    from lossless.model.messages import ModelIdentity
    from lossless.store.archive import Archive

__all__ = ["AssembleRequest", "Assembled", "Receipt", "assemble"]


@dataclass(frozen=True, slots=True)
class AssembleRequest:
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
    #: Whether the model has the recall tools, so that texts may point to them.
    recall: bool = True
    #: What the budget was computed from.
    history: HistoryBudget | None = None
    #: What may be quoted before one user's words, in tokens; 0 for nothing.
    evidence_tokens: int = 0


#: What stands in a prompt beside the context, and how many of its pieces are named when it is too large.
_EXTRAS = ("pins and focus", "cue", "evidence")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was assembled. Tokens are estimates; times `factor` they are the provider's."""

    budget: int
    factor: float
    #: Estimated tokens that were there to give, and that were used.
    capacity: int
    tokens: int
    #: Ids in the prompt's order with the form in which they stand.
    included: tuple[tuple[str, str], ...]
    #: Ids that stayed out, with the reason.
    left_out: tuple[tuple[str, str], ...]
    tokens_by_kind: Mapping[str, int]
    #: Lane → share of what there was to give; see `SHARE_TARGETS` for what is aimed at.
    shares: Mapping[str, float]
    repairs: tuple[MessageRepair, ...] = ()
    #: The tokens of each item that is included, in the form in which it stands.
    sizes: tuple[int, ...] = ()
    #: What `capacity` was computed from; None where nobody said.
    history: HistoryBudget | None = None
    #: Older messages that were not even read, as no summary covers them and they cannot fit.
    unread: int = 0
    #: Summaries that are followed by a line about what changed below them since they were written.
    corrected: tuple[str, ...] = ()
    #: Messages that are quoted from the past before a user's words, and why.
    evidence: tuple[tuple[str, str], ...] = ()

    @property
    def history_budget(self) -> int:
        """What of the window is the conversation's, in estimated tokens."""
        return self.capacity if self.history is None else self.history.tokens

    @property
    def unstated(self) -> int:
        """How many items are left out with nothing standing for them; a line in the prompt says so."""
        return self.unread + sum(reason in OMITTED_WITHOUT_TRACE for _, reason in self.left_out)

    @property
    def fits(self) -> bool:
        return self.tokens <= self.capacity

    @property
    def over(self) -> int:
        """By how many tokens the prompt is larger than it may be."""
        return max(0, self.tokens - self.capacity)

    @property
    def shortened(self) -> tuple[str, ...]:
        """Ids of messages that are shown in part, or as a reference to their file, to make room."""
        return tuple(id for id, form in self.included if form in ("shortened", "reference"))

    @property
    def why_over(self) -> str:
        """Why the prompt is larger than it may be; empty when it is not."""
        if self.fits:
            return ""
        sizes = [*zip((id for id, _ in self.included), self.sizes, strict=False)]
        sizes += [(kind, tokens) for kind, tokens in self.tokens_by_kind.items() if kind in _EXTRAS]
        largest = sorted(sizes, key=lambda size: -size[1])[:_NAMED]
        named = ", ".join(f"{id} takes {tokens:,}" for id, tokens in largest)
        return f"{self.tokens:,} tokens where {self.capacity:,} fit, and nothing else can go or be shortened: {named}"

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
    *,
    extras: Mapping[str, int] | None = None,
    left_out: Sequence[tuple[str, str]] = (),
    repairs: Sequence[MessageRepair] = (),
    history: HistoryBudget | None = None,
    unread: int = 0,
    corrected: Sequence[str] = (),
) -> Receipt:
    """The receipt for a choice; `extras` are tokens by kind beside it (pins, focus, cue, policy)."""
    shown = {kept.candidate.id for kept in chosen.kept}
    beside = {kind: tokens for kind, tokens in (extras or {}).items() if tokens}
    return Receipt(
        budget=policy.budget if history is None else history.window,
        factor=policy.factor if history is None else history.factor,
        capacity=policy.capacity,
        tokens=chosen.tokens + sum(beside.values()),
        included=tuple((kept.candidate.id, kept.form) for kept in chosen.kept),
        left_out=(*((out.candidate.id, out.reason) for out in chosen.left_out), *left_out),
        tokens_by_kind={**chosen.tokens_by_kind, **beside},
        shares=chosen.shares,
        repairs=tuple(repairs),
        sizes=tuple(kept.tokens for kept in chosen.kept),
        history=history,
        unread=unread,
        corrected=tuple(id_ for id_ in corrected if id_ in shown),
    )


MAX_CUE_TERMS = 4
MAX_CUE_SNIPPETS = 4
MAX_CUE_SNIPPET_CHARS = 1200
#: How much of a prompt is looked at; a pasted log is not a question.
_PROMPT_CHARS = 20_000

_QUOTED = re.compile(
    r'"([^"\n]{3,80})"|“([^”\n]{3,80})”|„([^“”\n]{3,80})[“”]|«([^»\n]{3,80})»'
    r"|「([^」\n]{2,80})」|『([^』\n]{2,80})』|《([^》\n]{2,80})》|`([^`\n]{3,80})`"
)
#: In order of how telling they are. Lengths are bounded, so that no prompt is slow to read.
_NAMES = (
    re.compile(r"\b[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,20}\b"),  # SCREAMING_SNAKE
    re.compile(r"(?<![\w/.~@+-])(?:~|\.{1,2})?/?[\w.@+-]{1,80}(?:/[\w.@+-]{1,80}){1,20}"),  # a/path/of.files
    re.compile(r"\b[A-Za-z]{2,12}-\d{2,12}\b"),  # ERR-4597
    re.compile(r"\b[^\W_]{1,40}(?:_[^\W_]{1,40}){1,20}\b"),  # snake_case
    re.compile(r"\b[A-Za-z][a-z0-9]{0,40}(?:[A-Z][a-z0-9]{1,40}){1,20}\b"),  # camelCase
    re.compile(r"(?<![\w-])[\w-]{1,80}\.(?:[a-z]{1,4}|toml|yaml|json|lock|proto|swift|kotlin)\b"),  # file.py
)
#: Chinese and Japanese words that join others: what stands between them is a name or a topic.
_JOINTS = re.compile("[的了是在和与我你他她它们吗呢吧也都就这那]|什么|怎么|为何|如何|[\u3041-\u309f]+")
_UNSPACED_CHARS = range(3, 13)

_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:key|keys|apikey|token|tokens|secret|secrets|password|passwd|passphrase|auth|credential"
    r"|credentials|bearer|private|pwd)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{12,}|\bxox[abprs]-[\w-]{8,}|\bAIza[\w-]{20,}|\bya29\.[\w-]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth|bearer)[_-]?token)['\"]?\s*[:=]\s*\S{4,}"
    r"|\b(?:bearer|basic)\s+[\w.~+/-]{16,}|://[^\s/:@]+:[^\s/@]+@",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？｡؟۔।])|\n+")


def looks_secret(text: str) -> bool:
    """Whether a text holds, or a name names, what should not be carried around.

    >>> [looks_secret(t) for t in ("DB_PASSWORD", "apiToken", "MAX_RETRIES", "sk-abcdefghijklmnop")]
    [True, True, False, True]
    """
    if _SECRET_VALUE.search(text):
        return True
    is_name = len(text) <= 80 and " " not in text
    return is_name and bool(_SECRET_NAME.search(_HUMP.sub("_", text)))


def cue_terms(prompt: str, shown: str = "", limit: int = MAX_CUE_TERMS) -> tuple[str, ...]:
    """What the prompt names and `shown` does not contain: identifiers, paths, quotations, unspaced words.

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
    yield from _NAMES[0].findall(prompt)
    for groups in _QUOTED.findall(prompt):
        yield next(filter(None, groups))
    for pattern in _NAMES[1:]:
        yield from pattern.findall(prompt)
    words = [word for run in unspaced_runs(prompt) for word in _JOINTS.split(run)]
    yield from sorted((word for word in words if len(word) in _UNSPACED_CHARS), key=len, reverse=True)


def cue_snippet(text: str, term: str, max_chars: int = MAX_CUE_SNIPPET_CHARS) -> str | None:
    """The sentence of `text` that holds the term, cut to `max_chars`; None without it or if secret."""
    match = re.search(re.escape(term), text, re.IGNORECASE)
    if match is None:
        return None
    at = match.start()
    window_start = max(0, at - max_chars)
    window = text[window_start : at + len(term) + max_chars]
    start, end, place = 0, len(window), at - window_start
    for border in _SENTENCE_END.finditer(window):
        if border.end() <= place:
            start = border.end()
        elif border.start() >= place + len(term):
            end = border.start()
            break
    if end - start > max_chars:
        start = max(start, place - (max_chars - len(term)) // 2)
        end = min(end, start + max_chars)
    sentence = window[start:end].strip()
    return None if not sentence or looks_secret(sentence) else sentence


def cue_message(snippets: Iterable[tuple[str, str]], shown: str = "") -> Message | None:
    """The cue for (where it was said, sentence) pairs that are not shown yet; None when none is left."""
    lines: dict[str, str] = {}
    for where, sentence in snippets:
        if sentence not in shown and sentence not in lines and len(lines) < MAX_CUE_SNIPPETS:
            lines[sentence] = quoted_line(where, sentence)
    if not lines:
        return None
    body = "\n".join(lines.values())
    return Message(
        role="user",
        content=f"{CUE_OPEN}{body}{CUE_CLOSE}",
    )


def place_cue(messages: Sequence[Message], cue: Message) -> tuple[Message, ...]:
    """The messages with the cue directly before the newest user message; at the end when there is none.

    As they are when that message also carries tool results: nothing may stand between those and their calls.
    """
    at = newest_user(tuple(messages))
    at = len(messages) if at is None else at
    if at < len(messages) and messages[at].tool_results:
        return tuple(messages)
    return (*messages[:at], cue, *messages[at:])


#: All evidence together takes at most this share of the history budget; for less than so many tokens none is chosen.
EVIDENCE_SHARE = 0.2
_LEAST_EVIDENCE = 120
#: How often a prompt that turns out larger than was reckoned is chosen anew, by what has been measured.
_MAX_REMEASURES = 3
#: A smaller prompt has no room for a line about what it leaves out.
_LEAST_FOR_NOTICE = 2_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt: messages in the host's format, their estimated tokens, and how they were chosen."""

    messages: list[Any]
    tokens: int
    receipt: Receipt
    #: What to add to the system prompt: constant bytes.
    system_prompt: str = RECALL_POLICY
    #: The conversation's own system prompt, in a format that keeps it apart from the messages.
    system: str = ""
    #: The same messages as values, before encoding.
    parts: tuple[Message, ...] = ()
    #: What stands in it from the past, oldest first.
    evidence: tuple[EvidenceBlock, ...] = ()


class EvidenceSource(Protocol):
    """Where evidence comes from: what was chosen since the last fold, and what fits the newest words."""

    @property
    def known(self) -> Sequence[EvidenceBlock]: ...

    def choose(self, need: EvidenceNeed, /) -> EvidenceBlock | None: ...


def assemble(
    archive: Archive,
    conversation_id: int,
    request: AssembleRequest,
    search: Callable[[str], Sequence[tuple[str, str]]] | None = None,
    vault: Vault | None = None,
    evidence: EvidenceSource | None = None,
) -> Assembled:
    """The prompt for the next turn: `[system] [pins] summaries … fresh tail`, within the budget.

    `search` finds (where, text) pairs for a term; without it there is no recall cue. From `vault` the newest turn
    gets its payloads back. `evidence` is quoted where the words stand that it was chosen for, as far as there is room
    that nothing else takes.
    """
    with archive.reading():
        material = read_snapshot(archive, conversation_id, request, vault)
    items, covered = material.with_focus()
    rendered = {item.ordinal: material.rendered(item, request) for item in items}
    beside, dropped_pins = _pins_and_brief(material, request)
    beside_tokens = sum(tokens_as_sent(message, encode_for_model(message, request.format)) for message in beside)
    is_capped = request.fresh_tail_max_tokens is not None
    policy = SelectionPolicy(
        request.budget,
        tail_start=fresh_tail_start(items, request.fresh_tail_count, request.fresh_tail_max_tokens),
        reserved=beside_tokens,
        factor=request.factor,
        is_prompt_aware=request.prompt_aware and bool(request.prompt),
        border=material.border,
        keeps_tail=not is_capped,
        notice_tokens=NOTICE_TOKENS if is_capped and request.budget >= _LEAST_FOR_NOTICE else 0,
    )
    desk = PromptBuilder(material, request, items, rendered, beside)
    prompt, quoted = desk.with_evidence(policy, evidence)
    cues = search if not quoted else None
    final, cue_tokens = _add_cue(prompt.messages, policy.capacity - prompt.tokens, request, cues)
    wire = desk.wire(final) if cue_tokens else prompt.wire
    left_out = [(pin.id, "no room among the pins") for pin in dropped_pins]
    left_out += [(summary_id, f"covered by {material.brief.id}") for summary_id in covered if material.brief]
    made = make_receipt(
        prompt.chosen,
        policy,
        extras={"pins and focus": beside_tokens, "cue": cue_tokens, "evidence": desk.evidence_tokens(quoted)},
        left_out=left_out,
        repairs=prompt.repairs,
        history=request.history,
        unread=material.unread,
        corrected=tuple(material.changes),
    )
    whys = tuple((f"msg#{quote.message_id}", quote.why) for block in quoted for quote in block.quotes)
    made = replace(made, tokens=prompt.tokens + cue_tokens, evidence=whys)
    apart = [clean_text(message.content) for message in takewhile(lambda message: message.role == "system", final)]
    if not apart or not provider_rules(request.format).system_apart:
        return Assembled(wire, made.tokens, made, parts=final, evidence=quoted)
    talk = [message for message in wire if message.get("role") != "system"]
    return Assembled(talk, made.tokens, made, system="\n\n".join(apart), parts=final, evidence=quoted)


@dataclass(frozen=True, slots=True)
class _BuiltPrompt:
    """A choice as it would be sent."""

    chosen: PromptSelection
    messages: tuple[Message, ...]
    repairs: tuple[MessageRepair, ...]
    wire: list[dict[str, Any]]
    tokens: int
    #: Tokens that repairs have added.
    mending: int
    #: What was chosen, as messages, and the line about what was not.
    kept: Sequence[Message]
    notice: Message | None


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Where a prompt is put together. What was rebuilt and measured stays on it."""

    material: ContextSnapshot
    request: AssembleRequest
    items: Sequence[ContextItem]
    rendered: dict[int, Message]
    beside: Sequence[Message]
    #: By the identity of the message, which each entry keeps alive.
    measured: dict[int, EncodedForModel] = field(default_factory=dict)
    #: What the words of a message take, by the estimate for budgets.
    estimates: dict[int, int] = field(default_factory=dict)
    #: Items in shorter forms, by ordinal, form and size.
    formed: dict[tuple[int, str, int], Message] = field(default_factory=dict)
    #: Evidence as messages, by its text.
    blocks: dict[str, Message] = field(default_factory=dict)

    def with_evidence(
        self, policy: SelectionPolicy, source: EvidenceSource | None
    ) -> tuple[_BuiltPrompt, tuple[EvidenceBlock, ...]]:
        """What fits, and the evidence that there is room for beside it: nothing else goes for its sake.

        Where it is more than there is room for, all of it leaves at once; and nothing is chosen for words while a share
        of the budget as large as all evidence may be is not free. So it leaves at most once before the next fold.
        """
        prompt = self.fitting_prompt(policy)
        if source is None:
            return prompt, ()
        cap, room = int(EVIDENCE_SHARE * policy.capacity), policy.capacity - prompt.tokens
        places = {item.message_id for item in _messages_in(prompt.chosen) if self._may_precede(item)}
        known = [block for block in source.known if block.quotes and (block.message_id or 0) in {0, *places}]
        known = known if self.evidence_tokens(known) <= min(cap, room) else []
        need = self._need(prompt.chosen, min(self.request.evidence_tokens, cap)) if room >= cap else None
        if need is not None and need.message_id not in {block.message_id for block in source.known}:
            staying = self._newest_fitting(known, cap - need.most)
            quoted = {quote.message_id for block in staying for quote in block.quotes}
            new = source.choose(replace(need, shown=need.shown | quoted))
            if new is not None and self.evidence_tokens([new]) <= need.most:
                known = [*staying, new]
        if not known:
            return prompt, ()
        made = self._mended(prompt.chosen, prompt.kept, prompt.notice, known)
        return (made, tuple(known)) if made.tokens <= policy.capacity else (prompt, ())

    def _need(self, chosen: PromptSelection, most: int) -> EvidenceNeed | None:
        """What evidence is wanted for: the newest words of a user, stored or about to be; None without any."""
        items = _messages_in(chosen)
        newest = next((item for item in reversed(items) if item.role == "user"), None)
        words, coming = "" if newest is None else self.rendered[newest.ordinal].content, self.request.prompt or ""
        id_ = None if newest is None else newest.message_id
        if coming and " ".join(coming.split()) not in " ".join(words.split()):
            id_, words = None, coming
        elif newest is None or not self._may_precede(newest):
            return None
        if not words.strip() or most < _LEAST_EVIDENCE:
            return None
        is_folded = len(items) < len(self.items) or bool(self.material.unread)
        return EvidenceNeed(id_, words, frozenset(item.message_id for item in items), most, is_folded)

    def _may_precede(self, item: MessageItem) -> bool:
        """Whether something may stand before a message: not between calls and their results."""
        return item.role == "user" and not self.rendered[item.ordinal].tool_results

    def _newest_fitting(self, blocks: Sequence[EvidenceBlock], most: int) -> list[EvidenceBlock]:
        """All blocks, or, when they are too much together, the newest that fit into half of it, in one step."""
        if self.evidence_tokens(blocks) <= most:
            return list(blocks)
        sizes = accumulate(self.evidence_tokens([block]) for block in reversed(blocks))
        fitting = sum(size <= most // 2 for size in sizes)
        return list(blocks[len(blocks) - fitting :])

    def evidence_tokens(self, blocks: Sequence[EvidenceBlock]) -> int:
        """What evidence takes as it is sent."""
        return sum(self._size(self._block(block)) for block in blocks if block.quotes)

    def _block(self, block: EvidenceBlock) -> Message:
        if block.content not in self.blocks:
            self.blocks[block.content] = Message(role="user", content=block.content)
        return self.blocks[block.content]

    def fitting_prompt(self, policy: SelectionPolicy) -> _BuiltPrompt:
        """What fits, with room for what repairs add."""
        prompt, mending = self.prompt(policy), 0
        while prompt.tokens > policy.capacity and prompt.mending > mending:
            mending = prompt.mending
            prompt = self.prompt(replace(policy, reserved=policy.reserved + mending))
        return prompt

    def prompt(self, policy: SelectionPolicy) -> _BuiltPrompt:
        """What fits, mended and measured."""
        chosen, kept, tokens = self._fitting(policy)
        notice = self._notice(chosen, policy.limit - tokens) if policy.notice_tokens else None
        return self._mended(chosen, kept, notice)

    def _mended(
        self,
        chosen: PromptSelection,
        kept: Sequence[Message],
        notice: Message | None,
        evidence: Sequence[EvidenceBlock] = (),
    ) -> _BuiltPrompt:
        """A choice with what stands beside it, as a strict provider takes it."""
        beside = [*self.beside, *([] if notice is None else [notice]), *(self._block(block) for block in evidence)]
        valid = make_valid(
            _in_prompt_order(self._inserted(chosen, kept, notice, evidence), self.beside),
            self.request.format,
            model=self.request.model,
            allow_trailing_assistant=self.request.allow_trailing_assistant,
            answered_elsewhere=self.material.answered,
        )
        whole = sum([self._size(message) for message in valid.messages])
        meant = sum([self._size(message) for message in (*kept, *beside)])
        wire = self.wire(valid.messages)
        return _BuiltPrompt(chosen, valid.messages, valid.repairs, wire, whole, whole - meant, kept, notice)

    def _inserted(
        self,
        chosen: PromptSelection,
        kept: Sequence[Message],
        notice: Message | None,
        evidence: Sequence[EvidenceBlock],
    ) -> list[Message]:
        """With the line about what is left out before the first message that is shown for itself, and with evidence
        directly before the words that it was chosen for; at the end where they are still to come.
        """
        blocks = {block.message_id: self._block(block) for block in evidence}
        found: list[Message] = []
        for one, message in zip(chosen.kept, kept, strict=True):
            item = one.candidate.item
            if isinstance(item, MessageItem) and item.role != "system":
                found += [] if notice is None else [notice]
                found += [blocks[item.message_id]] if item.message_id in blocks else []
                notice = None
            found.append(message)
        found += [] if notice is None else [notice]
        return [*found, blocks[None]] if None in blocks else found

    def _notice(self, chosen: PromptSelection, room: int) -> Message | None:
        """The line that says what is left out with nothing standing for it, if something is and there is room."""
        out = [left.candidate.item for left in chosen.left_out if left.reason in OMITTED_WITHOUT_TRACE]
        names = [item.summary_id for item in out if isinstance(item, SummaryItem)]
        count = len(out) - len(names) + self.material.unread
        if not count and not names:
            return None
        said = (kept.candidate.item for kept in chosen.kept if isinstance(kept.candidate.item, MessageItem))
        following = next((item.message_id for item in said if item.role != "system"), None)
        line = omission_notice(count, following, names, recall=self.request.recall)
        return line if self._size(line) <= room else None

    def wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages as they are sent."""
        joined = formats.join([self._sent(message).written for message in messages], self.request.format)
        return limit_cache_marks(joined) if self.request.format == "anthropic" else joined

    def _sent(self, message: Message) -> EncodedForModel:
        known = self.measured.get(id(message))
        if known is None:
            known = self.measured[id(message)] = encode_for_model(message, self.request.format)
        return known

    def _size(self, message: Message) -> int:
        """What a message takes as it is sent; only what was made for this prompt is estimated now."""
        known = self.estimates.get(id(message))
        if known is None:
            known = self.estimates[id(message)] = estimated_tokens(message)
        return tokens_as_sent(message, self._sent(message), known)

    def _fitting(self, policy: SelectionPolicy) -> tuple[PromptSelection, list[Message], int]:
        """A choice that fits by its true sizes, as messages; what is chosen by estimates may be larger."""
        offers = CandidateBuilder(self.material, self.request, policy)
        candidates = offers.candidates(self.items, self.rendered)
        chosen = choose(candidates, policy)
        for _ in range(_MAX_REMEASURES):
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

    def _as_measured(self, candidate: ContextCandidate) -> ContextCandidate:
        message = self.rendered[candidate.item.ordinal]
        return candidate if id(message) not in self.measured else replace(candidate, tokens=self._size(message))

    def _built(self, chosen: PromptSelection) -> tuple[list[Message], int]:
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

    def _formed(self, kept: KeptItem) -> Message:
        ordinal = kept.candidate.item.ordinal
        key = (ordinal, kept.form, len(kept.stands_for) or kept.tokens)
        if key not in self.formed:
            self.formed[key] = self.material.formed(kept, self.rendered[ordinal], self.request)
        return self.formed[key]


def _pins_and_brief(
    material: ContextSnapshot, request: AssembleRequest
) -> tuple[list[Message], tuple[render.Pin, ...]]:
    """What stands before the context whatever happens: pins, then the focus brief."""
    kept, dropped = render.choose_pins(
        material.pins, SelectionPolicy(request.budget, 0, factor=request.factor).capacity
    )
    beside = []
    if (pins := render.pins_message(kept)) is not None:
        beside.append(pins)
    if material.brief is not None and (covered := material.with_focus()[1]):
        changes = [material.changes[id_] for id_ in covered if id_ in material.changes]
        beside.append(render.focus_message(material.brief, request.timezone or UTC, changes))
    return beside, dropped


def _messages_in(chosen: PromptSelection) -> list[MessageItem]:
    """The messages of a choice that stand for themselves."""
    items = (kept.candidate.item for kept in chosen.kept)
    return [item for item in items if isinstance(item, MessageItem)]


def _in_prompt_order(kept: Sequence[Message], beside: Sequence[Message]) -> tuple[Message, ...]:
    """System prompts first, then what stands beside, then the rest."""
    talk = next((n for n, message in enumerate(kept) if message.role != "system"), len(kept))
    return (*kept[:talk], *beside, *kept[talk:])


def _add_cue(
    messages: tuple[Message, ...],
    room: int,
    request: AssembleRequest,
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
    tokens = 0 if cue is None else tokens_as_sent(cue, encode_for_model(cue, request.format))
    if cue is None or tokens > room:
        return messages, 0
    placed = place_cue(messages, cue)
    return placed, tokens if len(placed) > len(messages) else 0


#: So many ids that were left out are kept of a prompt.
_MAX_LEFT_OUT = 50
_MESSAGE_ID = re.compile(r"msg#(\d+)")


def receipt_detail(receipt: Receipt) -> dict[str, Any]:
    """What is kept of a receipt: ids, sizes and reasons."""
    left_out = receipt.left_out[:_MAX_LEFT_OUT]
    return {
        "kinds": dict(receipt.tokens_by_kind),
        "included": _in_runs(receipt.included),
        "left_out": [list(pair) for pair in left_out],
        "evidence": [list(pair) for pair in receipt.evidence],
    }


def _in_runs(included: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Ids with their forms, messages that follow each other in one form together.

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

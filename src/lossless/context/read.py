"""Reads everything a prompt may need in one snapshot, and measures each item in each possible form."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lossless import formats
from lossless.context import render
from lossless.context.choose import MIN_MESSAGE_TOKENS, ContextCandidate, KeptItem, SelectionPolicy, relevance_scores
from lossless.context.repair import message_groups, unanswered_indices
from lossless.errors import ArchiveCorrupt, ArchiveError, BadInput, NotFound
from lossless.files.intercept import restore_message
from lossless.files.vault import Vault, payload_reader
from lossless.formats.synthetic import render_summary
from lossless.model.budget import budget_tokens
from lossless.model.context import (
    ContextItem,
    MessageItem,
    Summary,
    SummaryItem,
    framed_tokens,
    newest_user_index,
    shown_tokens,
    whole_limit,
)
from lossless.model.messages import Json, Message, Reasoning, Role

if TYPE_CHECKING:
    from lossless.context.run import AssembleRequest
    from lossless.model.records import StoredBrief
    from lossless.store.archive import Archive
    from lossless.store.context import NewestItems, SourceChange
    from lossless.store.rows import MessageSketch


def with_payloads(archive: Archive, vault: Vault, message: Message, recipe: Json) -> Message | None:
    """A message with its payloads restored; None when a file is missing, or a newer release recorded how."""
    try:
        return restore_message(message, recipe, payload_reader(archive.files.many, vault), formats.decode)
    except (NotFound, ArchiveError, BadInput):
        return None


def restore_turn_payloads(
    archive: Archive, items: Sequence[ContextItem], vault: Vault | None, capacity: int
) -> dict[int, Message | None]:
    """Messages with payloads from the newest user message on, by ordinal: in full, or None where that is too large.

    The user's own message may use the whole budget; the others, newest first, half of it together. A payload that does
    not fit, or whose file is missing, stays a reference as in the archive.
    """
    start = newest_user_index(items)
    if vault is None or start is None:
        return {}
    ordinals = {item.message_id: item.ordinal for item in items[start:] if isinstance(item, MessageItem)}
    recipes = archive.context.recipes(list(ordinals))
    if not recipes:
        return {}
    found: dict[int, Message | None] = {}
    remaining = capacity // 2
    for stored in reversed(archive.messages.many([id_ for id_ in ordinals if id_ in recipes])):
        is_users = ordinals[stored.id] == items[start].ordinal
        room = capacity if is_users else remaining
        message = with_payloads(archive, vault, stored.message, recipes[stored.id]) if is_users or room > 0 else None
        size = 0 if message is None else render.estimated_tokens(message)
        remaining -= 0 if is_users else size
        found[ordinals[stored.id]] = message if size <= room else None
    return found


#: Context items beyond this many times the budget are not read. A step's slack lies within.
_READ_SHARE = 1.3


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """Everything that was read in one snapshot for a request."""

    request: AssembleRequest
    items: tuple[ContextItem, ...]
    #: The weight of older items that were not read because they cannot fit.
    border: int
    stored: Mapping[int, MessageSketch]
    summaries: Mapping[str, Summary]
    pins: tuple[tuple[str, str], ...]
    brief: StoredBrief | None
    newest_seqs: Mapping[str, int]
    #: Summaries that are newer than the brief, whatever their position.
    newcomers: frozenset[str]
    files: Mapping[str, tuple[int, str]]
    #: Messages with payloads in the newest turn, by ordinal: in full, or None where that is too large.
    payloads: Mapping[int, Message | None]
    #: The index of the newest user message; it and everything after it stay unchanged.
    newest_turn: int = 0
    #: How many older messages without a summary cannot fit.
    unread: int = 0
    #: Changes to summarised messages since the summaries were written.
    changes: Mapping[str, tuple[SourceChange, ...]] = field(default_factory=dict)

    @property
    def answered(self) -> frozenset[str]:
        """Call ids whose result is in the context, chosen or not."""
        found = (part.call_id for known in self.stored.values() for part in known.message.tool_results)
        return frozenset(call_id for call_id in found if call_id)

    def covered(self, item: ContextItem) -> int:
        """The history that a summary covers, in tokens of its messages."""
        return self.summaries[item.summary_id].source_message_tokens if isinstance(item, SummaryItem) else 0

    def estimate(self, item: ContextItem, message: Message) -> int:
        """The budget estimate of an item's text: stored, where it is a message as it is in the archive."""
        if isinstance(item, SummaryItem):
            return max(message.tokens, _rendered_budget_tokens(message.content))
        return item.budget_tokens if message.tokens == item.tokens else render.estimated_tokens(message)

    def with_focus(self) -> tuple[tuple[ContextItem, ...], tuple[str, ...]]:
        """The items without the summaries that an active focus brief replaces, and those summaries."""
        brief = self.brief
        if brief is None:
            return self.items, ()

        def is_covered(item: ContextItem) -> bool:
            if not isinstance(item, SummaryItem) or item.summary_id in self.newcomers:
                return False
            latest_at = self.summaries[item.summary_id].latest_at
            return render.brief_covers(brief, self.newest_seqs.get(item.summary_id), latest_at)

        covered = tuple(item.summary_id for item in self.items if isinstance(item, SummaryItem) and is_covered(item))
        return tuple(item for item in self.items if not is_covered(item)), covered

    def rendered(self, item: ContextItem) -> Message:
        """An item as a message, without its original where that is not needed to choose."""
        if isinstance(item, SummaryItem):
            return self.summary(item.summary_id)
        return self.payloads.get(item.ordinal) or self.kept(item)

    def kept(self, item: MessageItem) -> Message:
        """A message as stored: with references for its payloads."""
        stored = self.stored[item.message_id]
        if stored.file_id is not None and stored.file_id in self.files and stored.message.tool_results:
            size, summary = self.files[stored.file_id]
            return render.stub_with_file(stored.message, stored.file_id, size, summary)
        return self._as_past(item, _with_openclaw_format(stored.message))

    def _as_past(self, item: MessageItem, message: Message) -> Message:
        """A message before the newest turn, escaped so that nothing in it looks like a summary, pin or quotation."""
        return message if item.ordinal >= self.newest_turn else render.escape_synthetic_blocks(message)

    def exact(self, item: MessageItem, message: Message) -> Message:
        """The original message, where it came in the requested format."""
        known = self.stored[item.message_id]
        is_own = known.message.format in (self.request.format, "plain")
        is_whole = self.payloads.get(item.ordinal) is message
        if known.skeleton is None or not is_own or is_whole or known.file_id in self.files:
            return message
        return self._as_past(item, _with_openclaw_format(known.exact()))

    def formed(self, kept: KeptItem, message: Message) -> Message:
        """A message in the form in which it was chosen."""
        item = kept.candidate.item
        if isinstance(item, MessageItem):
            if kept.form == "stub":
                return render.stub_results(message, item.message_id, recall=self.request.recall)
            if kept.form == "reference":
                return self.exact(item, self.kept(item))
            if kept.form == "shortened":
                return self.shortened(item, message, kept.tokens)
        elif kept.form == "shortened":
            return self.summary(item.summary_id, kept.tokens)
        if kept.form == "run":
            ids = [c.item.message_id for c in kept.stands_for if isinstance(c.item, MessageItem)]
            names = [c.item.summary_id for c in kept.stands_for if isinstance(c.item, SummaryItem)]
            return render.collapsed_steps_stub(ids, names, recall=self.request.recall)
        return message

    def summary(self, summary_id: str, limit: int | None = None) -> Message:
        """A summary as a message, with its text cut in the middle where it must keep to a limit."""
        summary, changes = self.summaries[summary_id], self.changes.get(summary_id, ())
        if limit is not None:
            share = min(1.0, summary.tokens / max(1, budget_tokens(summary.content)))
            minimum = replace(summary, content=render.shorten_text(summary.content, 0, summary_id))
            frame = framed_tokens(render.estimated_tokens(render.summary_message(render_summary(minimum), changes)))
            content = render.shorten_text(summary.content, int(max(0, limit - frame) * share), summary_id)
            summary = replace(summary, content=content)
        return render.summary_message(render_summary(summary, self.request.timezone), changes)

    def shortened(self, item: MessageItem, message: Message, limit: int) -> Message:
        """A message cut to a size; when its payload is too large, the stored one with the reference."""
        id_, whole = item.message_id if self.request.recall else None, message
        if item.ordinal in self.payloads:
            whole = self.kept(item)
        share = whole.tokens / max(1, self.estimate(item, whole))
        return render.shorten_message(whole, id_, int(limit * min(share, 1.0)), self.request.format)


#: The budget tokens of a rendered summary, which is in many prompts.
_rendered_budget_tokens = lru_cache(maxsize=256)(budget_tokens)


def read_snapshot(
    archive: Archive, conversation_id: int, request: AssembleRequest, vault: Vault | None
) -> ContextSnapshot:
    """Read what a prompt may need; raises `ArchiveCorrupt` when an item of the context is missing."""
    whole = SelectionPolicy(request.budget, 0, factor=request.factor)
    limit = int(_READ_SHARE * whole.capacity) if not request.prompt_aware else sys.maxsize
    has_past, capacity = request.fresh_tail_max_tokens is not None, whole.capacity

    def shown(role: Role, tokens: int, is_past: bool) -> int:
        return shown_tokens(role, tokens, capacity, is_past=has_past and is_past)

    newest = archive.context.newest_items(conversation_id, limit, shown)
    items, border = _trim_to_step(newest, whole.step)
    unread = newest[2][0] + len(newest[0]) - len(items)
    ids = [item.message_id for item in items if isinstance(item, MessageItem)]
    stored = archive.context.sketches(ids)
    names = [item.summary_id for item in items if isinstance(item, SummaryItem)]
    summaries = archive.summaries.many(names)
    _raise_missing(conversation_id, set(names).difference(summary.id for summary in summaries))
    _raise_missing(conversation_id, {f"msg#{id_}" for id_ in ids if id_ not in stored})
    brief = archive.prompts.active_brief(conversation_id)
    file_ids = [known.file_id for known in stored.values() if known.file_id] if request.stub_payloads else []
    return ContextSnapshot(
        request,
        items,
        border,
        stored,
        {summary.id: summary for summary in summaries},
        tuple((f"pin_{pin.id}", pin.content) for pin in archive.prompts.pins(conversation_id)),
        brief,
        archive.prompts.newest_seqs(conversation_id) if brief else {},
        archive.prompts.newcomers(conversation_id, brief.id) if brief else frozenset(),
        archive.prompts.files(file_ids) if file_ids else {},
        restore_turn_payloads(archive, items, vault, whole.capacity),
        items[newest_user_index(items) or 0].ordinal if items else 0,
        unread,
        archive.summaries.changes_below(names) if names else {},
    )


def item_weight(item: ContextItem) -> int:
    """An item's weight in steps: from its stored size, so that it never changes."""
    return framed_tokens(item.budget_tokens)


def _raise_missing(conversation_id: int, lacking: set[str]) -> None:
    """Raises: a prompt without an item of its context would be wrong."""
    if lacking:
        raise ArchiveCorrupt(
            f"the context of conversation {conversation_id} holds {min(lacking)}, which is not in the archive; "
            "`lcm doctor` says what is missing, `lcm restore` restores a backup"
        )


def _trim_to_step(newest: NewestItems, step: int) -> tuple[tuple[ContextItem, ...], int]:
    """The items without the oldest messages up to the next whole step, and the weight of all that is dropped."""
    whole, first, (unread, _, budget_tokens) = newest
    border = framed_tokens(budget_tokens, unread)
    goal = -(-border // step) * step
    user = newest_user_index(whole) or 0
    items: list[ContextItem] = []
    for n, item in enumerate(whole):
        if border < goal and first <= n < user and isinstance(item, MessageItem):
            border += item_weight(item)
        else:
            items.append(item)
    return tuple(items), border


def _with_openclaw_format(message: Message) -> Message:
    """Thinking without a format was stored by lossless-claw: it is OpenClaw's, and may be replayed there."""
    if not message.parts or message.format != "plain" or not any(isinstance(part, Reasoning) for part in message.parts):
        return message
    return replace(message, format="openclaw")


def build_candidates(
    material: ContextSnapshot,
    policy: SelectionPolicy,
    items: Sequence[ContextItem],
    rendered: Mapping[int, Message],
    sizes: Sequence[int] | None = None,
) -> list[ContextCandidate]:
    """The candidates for `items`, with their true sizes when known. Shorter forms are measured only at need."""
    request, messages = material.request, [rendered[item.ordinal] for item in items]
    groups, open_at = message_groups(messages), unanswered_indices(messages)
    scores: Sequence[float] = [0.0] * len(items)
    if request.prompt_aware and request.prompt:
        scores = relevance_scores(request.prompt, [message.content for message in messages])
    if sizes is None:
        pairs = zip(items, messages, strict=True)
        sizes = [framed_tokens(material.estimate(item, message)) for item, message in pairs]
    user = newest_user_index(items) or 0
    turn_tokens = sum(sizes[user:])
    is_long_turn = 2 * turn_tokens > policy.capacity
    max_tokens = policy.limit
    is_over = not policy.keeps_tail and sum(sizes) > max_tokens
    newest, payloads = len(items) - policy.verbatim_in_turn, material.payloads
    found = []
    for n, (item, message) in enumerate(zip(items, messages, strict=True)):
        in_turn = is_long_turn and n >= user
        stub = minimum = reference = None
        if in_turn and isinstance(item, MessageItem) and message.tool_results:
            stub = render.encode_for_model(
                render.stub_results(message, item.message_id, recall=request.recall), request.format
            ).tokens
        if isinstance(item, MessageItem):
            limit = whole_limit(item.role, max_tokens, is_past=is_over and n < user)
            may_be_cut = in_turn and (n == user or n >= newest or n in open_at)
            if may_be_cut or 2 * sizes[n] > limit:
                minimum = _as_sent(material.shortened(item, message, MIN_MESSAGE_TOKENS), request)
                if payloads.get(item.ordinal) is not None:
                    reference = _as_sent(material.exact(item, material.kept(item)), request)
        elif is_over and sizes[n] > min(policy.widest_tokens, max_tokens - turn_tokens):
            minimum = _as_sent(material.summary(item.summary_id, MIN_MESSAGE_TOKENS), request)
        found.append(
            ContextCandidate(
                item,
                sizes[n],
                item_weight(item),
                covers_messages=material.covered(item),
                score=scores[n],
                atom=groups[n],
                stub_tokens=stub,
                least_tokens=minimum if minimum is not None and minimum < sizes[n] else None,
                reference_tokens=reference,
                is_unanswered=n in open_at,
                form="reference" if item.ordinal in payloads and payloads[item.ordinal] is None else "verbatim",
            )
        )
    return found


def _as_sent(message: Message, request: AssembleRequest) -> int:
    return render.tokens_as_sent(message, render.encode_for_model(message, request.format))

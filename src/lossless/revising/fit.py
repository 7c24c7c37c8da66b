"""Which new texts fit together: nothing may stop being smaller than what it was made of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.model.summaries import Summary
    from lossless.revising.rewriting import Draft
    from lossless.store.archive import Archive


def settled(archive: Archive, made: Sequence[Draft]) -> tuple[list[Draft], list[Draft]]:
    """Usable drafts that may be put in place together, and those that must not be, each with its refusal.

    A draft goes when something made of its summary would stop being smaller than its sources.
    """
    good = {draft.summary_id: draft for draft in made if draft.refusal is None}
    refused = [draft for draft in made if draft.refusal is not None]
    reasons = {draft.summary_id: str(draft.refusal) for draft in refused}
    users = {user for id_ in good for user in archive.summaries.used_in(id_)} | set(good)
    known = {summary.id: summary for summary in archive.summaries.many(sorted(users))}
    below = {id_ for summary in known.values() for id_ in summary.source_ids}
    sizes = {summary.id: summary.tokens for summary in archive.summaries.many(sorted(below))}
    while (found := _guilty(known, sizes, good)) is not None:
        guilty, user = found
        refusal = _refusal(guilty, user, reasons.get(user))
        refused.append(replace(good.pop(guilty), refusal=refusal, breaks=user))
        reasons[guilty] = refusal
    return [draft for draft in made if draft.summary_id in good], refused


def outgrown(archive: Archive, summary_id: str, accepted: Mapping[str, Draft]) -> list[Summary]:
    """What was made of a summary and, with the new texts, would no longer be smaller than its sources."""
    found = []
    for user in archive.summaries.many(archive.summaries.used_in(summary_id)):
        sources = archive.summaries.many(user.source_ids)
        before = sum(source.tokens for source in sources)
        weight = sum(accepted[one.id].tokens if one.id in accepted else one.tokens for one in sources)
        if weight <= user.tokens < before and user.id not in accepted:
            found.append(user)
    return found


def _refusal(guilty: str, user: str, reason: str | None) -> str:
    """Why a draft must not take its place, and what helps."""
    if guilty == user:
        return "with the new texts below it, it would be no smaller than its sources"
    larger = f"{user}, which was made of it, would no longer be smaller than its sources"
    if reason is not None:
        return f"{larger}, and is not written anew: {reason}; try again, or with another --model"
    return f"{larger}; `lcm rewrite --summary {guilty} --upward --apply` writes both anew"


def _guilty(
    known: Mapping[str, Summary], sizes: Mapping[str, int], good: Mapping[str, Draft]
) -> tuple[str, str] | None:
    """A draft that has to go, and the summary that with it would be no smaller than its sources."""

    def size(id_: str, otherwise: int) -> int:
        return good[id_].tokens if id_ in good else otherwise

    for summary in known.values():
        if not summary.source_ids:
            continue
        before = sum(sizes[id_] for id_ in summary.source_ids)
        weight = sum(size(id_, sizes[id_]) for id_ in summary.source_ids)
        was_small, own = summary.tokens < before, size(summary.id, summary.tokens)
        if own < weight or (summary.id not in good and not was_small):
            continue
        if summary.id in good and own >= before:
            return summary.id, summary.id
        shrunk = [id_ for id_ in summary.source_ids if id_ in good and good[id_].tokens < sizes[id_]]
        if shrunk:
            return min(shrunk, key=lambda id_: good[id_].tokens - sizes[id_]), summary.id
        if summary.id in good:
            return summary.id, summary.id
    return None

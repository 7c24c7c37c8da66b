"""In which order summaries are written anew, and which of them a run that was stopped has written already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.store.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.summaries import Summary
    from lossless.store.archive import Archive


def subtree_by_subtree(summaries: Sequence[Summary]) -> list[Summary]:
    """The same summaries, each after all that it was made of and as soon as these are complete.

    Those that nothing among them was made of keep their order: a run that is stopped has finished what it began first.
    """
    known = {summary.id: summary for summary in summaries}
    used = {id_ for summary in summaries for id_ in summary.source_ids}
    tops = [summary for summary in summaries if summary.id not in used]
    ordered: dict[str, Summary] = {}
    seen: set[str] = set()
    for top in (*tops, *summaries):
        waiting = [(top, False)]
        while waiting:
            summary, is_complete = waiting.pop()
            if is_complete:
                ordered[summary.id] = summary
            elif summary.id not in seen:
                seen.add(summary.id)
                waiting.append((summary, True))
                waiting += [(known[id_], False) for id_ in reversed(summary.source_ids) if id_ in known]
    return list(ordered.values())


def by_time(summaries: Iterable[Summary]) -> list[Summary]:
    """The older before the newer; what has no time comes last."""
    return sorted(summaries, key=lambda one: (one.earliest_at is None, one.earliest_at and one.earliest_at.timestamp()))


def written_before(archive: Archive, conversation_id: int, rule: str) -> frozenset[str]:
    """What a run of a rule had a model write so far, with those that went on with it; nothing when it came to its end.

    What is extracted costs nothing, and may only hold the place until a model comes to it.
    """
    operations = Operations(archive)
    entries = operations.entries(conversation_id)
    undone = {entry.detail.get("undoes") for entry in entries if entry.action == "undo"}
    found: set[str] = set()
    for entry in reversed(entries):
        if entry.action != "rewrite" or entry.id in undone or entry.detail.get("rule") != rule:
            continue
        if not entry.detail.get("left"):
            break
        found.update(was.id for was in operations.former(entry.id))
        if not entry.detail.get("kept"):
            break
    now = archive.summaries.many(sorted(found))
    return frozenset(summary.id for summary in now if summary.model != EXTRACTIVE_MODEL)

"""Citations that exist: an id that a model made up is dropped, and marked where it stands in the text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.recall.references import Reference, mentioned, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.recall.delegate import Reply
    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive

MARK = " [no such id]"


def settled(archive: Archive, scope: Scope, reply: Reply) -> tuple[Reply, tuple[str, ...]]:
    """The reply with citations that are in scope only, in the text, too; and the ids that were made up.

    An id that stands in the text counts as cited.
    """
    spots = mentioned(reply.answer)
    named = [parse(id_) for id_ in reply.cited_ids] + [reference for _, _, reference in spots]
    there = existing(archive, scope, named)
    pieces: list[str] = []
    at = 0
    for _, end, reference in spots:
        if reference.id not in there:
            pieces += [reply.answer[at:end], MARK]
            at = end
    answer = "".join([*pieces, reply.answer[at:]])
    ids = list(dict.fromkeys(reference.id for reference in named))
    cited = tuple(id_ for id_ in ids if id_ in there)
    return replace(reply, answer=answer, cited_ids=cited), tuple(id_ for id_ in ids if id_ not in there)


def existing(archive: Archive, scope: Scope, references: Iterable[Reference]) -> set[str]:
    """The ids among them that are in the archive and in scope."""
    named = list(references)
    homes: dict[str, int] = {}
    summaries = archive.lineage.nodes(known.id for known in named if known.kind == "summary")
    homes |= {node.id: node.conversation_id for node in summaries.values()}
    places = archive.lineage.places(known.message_id for known in named if known.kind == "message")
    homes |= {f"msg#{id_}": place[0] for id_, place in places.items()}
    files = archive.files.many(known.id for known in named if known.kind == "file")
    homes |= {stored.id: stored.conversation_id for stored in files.values()}
    return {id_ for id_, conversation_id in homes.items() if scope.allows(conversation_id)}

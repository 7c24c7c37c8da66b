"""Whether a step can still be taken back: all that it needs is in the archive, and in its own conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, NotFound
from lossless.store.belonging import Belonging
from lossless.store.merging import Merging
from lossless.store.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lossless.store.archive import Archive
    from lossless.store.operations import Former, LogEntry

UNDOABLE = frozenset({"fold", "dissolve", "rewrite", "repair", "transplant", "merge", "focus", "unfocus"})
_SOURCE = frozenset({"id", "offset", "last", "context", "summaries", "files", "pins", "hidden", "records", "briefs"})


def open_steps(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The changes that were not taken back, oldest first; a summary that was written ahead has changed nothing yet.

    A line of an undo that names none of them, as in logs that were numbered anew, took back the newest of its kind.
    """
    found: dict[int, LogEntry] = {}
    for entry in entries:
        if entry.action == "prepare":
            continue
        if entry.action != "undo":
            found[entry.id] = entry
            continue
        named = found.get(entry.detail.get("undoes", 0))
        if named is None or named.action != entry.cause:
            named = next((one for one in reversed(found.values()) if one.action == entry.cause), None)
        if named is not None and named.action in UNDOABLE:
            del found[named.id]
    return list(found.values())


def check(archive: Archive, conversation_id: int, entry: LogEntry, former: Sequence[Former]) -> None:
    """BadInput, with the reason, when a step is out of reach."""
    refuse_merged(archive, conversation_id)
    if reason := entry.detail.get("lost"):
        raise _refused(entry, str(reason))
    match entry.action:
        case "transplant":
            _check_transplant(archive, conversation_id, entry)
        case "merge":
            _check_merge(archive, conversation_id, entry)
        case "focus" | "unfocus":
            _check_focus(archive, conversation_id, entry)
        case "rewrite" | "repair":
            if not former:
                raise _refused(entry, "the former texts were not kept")
            _mine(archive, conversation_id, entry, [was.id for was in former])
        case _:
            items = [*entry.added, *entry.removed]
            for was in former:
                items += [*was.message_ids, *was.source_ids]
            _mine(archive, conversation_id, entry, items, may_be_gone={was.id for was in former})


def _refused(entry: LogEntry, reason: str) -> BadInput:
    return BadInput(f"the {entry.action} cannot be undone: {reason}")


def refuse_merged(archive: Archive, conversation_id: int) -> None:
    """While a conversation's rows stand in another one, only that one can be operated on."""
    for log_id, target in Belonging(archive).merges_of(conversation_id):
        if any(entry.id == log_id for entry in open_steps(Operations(archive).entries(target))):
            raise BadInput(
                f"conversation {conversation_id} was merged into conversation {target} (change {log_id}): "
                f"undo that merge first, with `lcm undo --conversation-id {target}`"
            )


def _mine(
    archive: Archive,
    conversation_id: int,
    entry: LogEntry,
    ids: Iterable[int | str],
    may_be_gone: Collection[str] = (),
) -> dict[int, int]:
    """Refuse when one of these is gone or belongs to another conversation; returns the seqs of messages."""
    wanted, belonging = set(ids), Belonging(archive)
    messages = belonging.messages(id_ for id_ in wanted if isinstance(id_, int))
    owners: dict[int | str, int] = {id_: owner for id_, (owner, _) in messages.items()}
    owners.update(belonging.summaries(id_ for id_ in wanted if isinstance(id_, str)).items())
    for id_ in sorted(wanted, key=str):
        name = f"msg#{id_}" if isinstance(id_, int) else f"summary {id_!r}"
        owner = owners.get(id_)
        if owner is None and id_ not in may_be_gone:
            raise _refused(entry, f"{name} is not in the archive")
        if owner is not None and owner != conversation_id:
            raise _refused(entry, f"{name} belongs to conversation {owner}, not to conversation {conversation_id}")
    return {id_: seq for id_, (_, seq) in messages.items()}


def _check_transplant(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    made = entry.detail
    if not made.keys() >= {"messages", "summaries", "files"}:
        raise _refused(entry, "the log does not say what it made")
    messages, summaries = made["messages"], made["summaries"]
    seqs = _mine(archive, conversation_id, entry, [*messages, *summaries])
    if sorted(seqs.values()) != list(range(1, len(messages) + 1)):
        raise _refused(entry, "the copied messages no longer stand at the head of the conversation")
    if needed := Belonging(archive).needed(conversation_id, summaries, messages):
        raise _refused(entry, f"{needed[0]} is still needed by {needed[1]}")


def _check_merge(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    sources: list[dict[str, Any]] = entry.detail.get("sources", [])
    is_whole = entry.detail.keys() >= {"sources", "ids", "superseded", "shift"}
    if not (is_whole and all(source.keys() >= _SOURCE for source in sources)):
        raise _refused(entry, "the log does not say what was merged")
    key = archive.conversations.get(conversation_id).session_key
    for source in sources:
        _check_source(archive, entry, source["id"], key)
        items = [item for _, item in source["context"]]
        seqs = _mine(archive, conversation_id, entry, [*items, *source["summaries"]])
        if any(not 0 < seq - source["offset"] <= source["last"] for seq in seqs.values()):
            raise _refused(entry, f"the messages of conversation {source['id']} no longer stand where they were put")


def _check_source(archive: Archive, entry: LogEntry, source_id: int, session_key: str | None) -> None:
    """The emptied conversation must be there, of the same session, and empty still."""
    try:
        source = archive.conversations.get(source_id)
    except NotFound:
        raise _refused(entry, f"conversation {source_id}, which was merged, is not in the archive") from None
    if source.session_key != session_key:
        raise _refused(entry, f"conversation {source_id} is of another session than the one that was merged")
    if Merging(archive).last_seq(source_id):
        raise _refused(entry, f"conversation {source_id}, which was merged, has messages of its own since")


def _check_focus(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    if "previous" not in entry.detail:
        raise _refused(entry, "the log does not say which brief was in use before")
    previous = entry.detail["previous"]
    if previous and Belonging(archive).brief(previous) != conversation_id:
        raise _refused(entry, f"the brief that was in use before, {previous!r}, is not in this conversation")

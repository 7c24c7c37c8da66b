"""Imports a Remnic database: its sessions become conversations, its tree becomes the graph again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lossless.model.identity import identity_hash
from lossless.model.paths import expand_path
from lossless.model.times import parse_time, row_time
from lossless.store import bundles
from lossless.store.bundles.other_programs import RemnicFile, check_remnic, explain_bad_text
from lossless.transfer import remnic_format
from lossless.transfer.files import PayloadCopier, check_not_archive, extra_row, restore_row
from lossless.transfer.lossless_claw import session_names, unknown_session_warnings
from lossless.transfer.merge import Merger, import_redacted
from lossless.transfer.merge_plan import read_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.bundles import MessageId, RowValues
    from lossless.transfer.lossless_claw import TransferOptions
    from lossless.transfer.merge_plan import ImportReport

_EMPTY: RowValues = dict.fromkeys((*bundles.MESSAGE_COLUMNS, *bundles.EXTRA_COLUMNS))


@dataclass(slots=True)
class RemnicTurn:
    number: int
    turn: int
    role: str
    tokens: int
    created_at: str
    metadata: dict[str, Any]
    #: The conversation that it came from, None when Remnic itself recorded it.
    conversation: str | None
    #: Its additional columns, and its id in the target archive.
    kept: RowValues | None = None
    id: MessageId = 0
    seq: int = 0


@dataclass(slots=True)
class _RemnicConversation:
    number: MessageId
    turns: list[RemnicTurn] = field(default_factory=list)
    tables: dict[str, list[tuple[str, RowValues]]] = field(default_factory=dict)


def find_database(source: str | Path) -> Path:
    """The database: a file, or a memory folder of Remnic's with one."""
    place = expand_path(source)
    inside = place / "state" / "lcm.sqlite"
    return inside if place.is_dir() and inside.exists() else place


def check_remnic_source(source: str) -> None:
    """Raises when this is not a valid Remnic database, or a memory folder with one; read-only."""
    check_remnic(find_database(source))


def import_remnic(source: str | Path, archive: Archive, vault: Vault | None, options: TransferOptions) -> ImportReport:
    """Copy the sessions of a Remnic database into this archive. The source is only read; a repeated import adds
    nothing.

    What lossless or Remnic's importer wrote there becomes the original conversations; with our additional tables the
    import is exact.
    """
    place = check_remnic(find_database(source))
    check_not_archive(source, place, archive)
    if archive.redact is not None:
        return import_redacted(archive, vault, options, archive.redact, partial(import_remnic, source))
    with RemnicFile(place, read_only=True) as file, file.reading(), explain_bad_text(place):
        merger = Merger(archive, PayloadCopier(vault), options, boundaries=not file.has("lcm_x_source_rows"))
        sessions = file.sessions()
        by_name = options.sessions <= set(sessions)
        names = {session: {session} for session in sessions}
        for session, mine in names.items() if not by_name else ():  # of the conversations that it came from, too
            mine.update(*(session_names(_conversation(session, one, [])) for one in _conversations(file, session)))
        wanted = [session for session in sessions if not options.sessions or names[session] & options.sessions]
        for session in wanted:
            for bundle in _bundles(file, session, merger.report):
                merger.add(bundle)
        merger.finish()
        merger.report.events_dropped = file.events(wanted)
    merger.report.warnings += unknown_session_warnings(names.values(), options.sessions)
    return merger.report


def _bundles(file: RemnicFile, session: str, report: ImportReport) -> Iterator[bundles.Bundle]:
    conversations = _conversations(file, session)
    owner = {turn.number: conversation for conversation in conversations for turn in conversation.turns}
    nodes = file.nodes(session)
    turns = {id(one): [(turn.turn, turn.number) for turn in one.turns] for one in conversations}
    owned, mixed = remnic_format.build_graph(nodes, {number: id(one) for number, one in owner.items()}, turns)
    report.warnings += [f"summary {id_!r} covers several conversations: left out" for id_ in mixed]
    report.summaries_without_sources += len(mixed)
    report.summaries_skipped_multi_session += len(mixed)
    unknown = [
        turn for one in conversations for turn in one.turns if not isinstance(turn.metadata.get("identity_hash"), str)
    ]
    roles = {turn.number: remnic_format.known_role(turn.role) for turn in unknown}
    pages = file.texts_and_parts([turn.number for turn in unknown])
    contents = {number: identity_hash(roles[number], content) for page in pages for number, content, _ in page}
    for conversation in conversations:
        yield _bundle(file, session, conversation, owned.get(id(conversation), []), contents)


def _conversations(file: RemnicFile, session: str) -> list[_RemnicConversation]:
    """The messages of a session by the conversations that they came from; the rest continues the last of them."""
    found: dict[str, _RemnicConversation] = {}
    own: list[RemnicTurn] = []
    for row in file.rows(session):
        values = read_object(row["metadata"])
        number, seq, time = values.get("conversation_id"), values.get("source_seq"), row["created_at"] or ""
        is_place = isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq < 1 << 40
        is_ours = values.get("source") == "lossless-claw" and is_place and isinstance(number, int | str)
        origin = str(number) if is_ours else None
        one = RemnicTurn(row["id"], row["turn"] or 0, row["role"] or "user", row["tokens"] or 0, time, values, origin)
        one.seq = int(seq or 0) if is_ours else 0
        if origin is None:
            own.append(one)
        else:
            found.setdefault(origin, _RemnicConversation(values["conversation_id"])).turns.append(one)
    for origin, conversation in found.items():
        conversation.tables = file.source_rows(origin)
    conversations = list(found.values())
    if own and not conversations:
        conversations = [_RemnicConversation(f"session {session}")]
    if own:
        max(conversations, key=lambda one: one.turns[-1].turn if one.turns else -1).turns.extend(own)
    for conversation in conversations:
        _number(conversation)
    return conversations


def _number(conversation: _RemnicConversation) -> None:
    """Number the messages: original numbers where known; those that Remnic itself stored follow them."""
    rows = [(id_, bundles.fit_row(restore_row(row))) for id_, row in conversation.tables.get("message", ())]
    named = [(id_, row) for id_, row in rows if id_.isascii() and id_.isdigit()]
    kept = {int(id_): row for id_, row in named if row.get("message_id") is not None}
    came = sorted((turn for turn in conversation.turns if turn.conversation is not None), key=lambda turn: turn.seq)
    own = [turn for turn in conversation.turns if turn.conversation is None]
    for turn in came:
        turn.kept = kept.get(turn.seq)
    for n, turn in enumerate(own, came[-1].seq + 1 if came else 1):
        turn.seq = n
    zero = int(bool(came) and came[0].seq < 1)  # seq begins at 1
    conversation.turns = [*came, *own]
    for turn in conversation.turns:
        turn.seq += zero
        turn.id = turn.kept["message_id"] if turn.kept else f"remnic {turn.number}"


def _bundle(
    file: RemnicFile, session: str, one: _RemnicConversation, nodes: list[RowValues], identities: dict[int, str]
) -> bundles.Bundle:
    ids = {turn.number: turn.id for turn in one.turns}
    keys = []
    for turn in one.turns:
        identity = str(turn.metadata.get("identity_hash") or identities.get(turn.number))
        kept, is_own = turn.kept or {}, turn.conversation is None
        entry = remnic_format.entry_id(turn.turn, turn.number) if is_own else kept.get("transcript_entry_id")
        at = str(kept["created_at"]) if kept.get("created_at") else _row_time(turn.created_at)
        names = entry, kept.get("stable_event_key"), turn.tokens, remnic_format.known_role(turn.role)
        keys.append(bundles.MessageKey(turn.id, turn.seq, identity, at, *names))
    summaries = [_summary(node, ids, one.tables) for node in nodes]
    tables = {
        table: [extra_row(table, row) for _, row in one.tables.get(table, ())]
        for table in (*bundles.SIDE_TABLES, "focus_brief_sources", "former_summaries")
    }
    items = [
        dict.fromkeys(bundles.CONTEXT_COLUMNS) | bundles.fit_row(restore_row(row))
        for _, row in one.tables.get("context_items", ())
    ]
    kept_context = [item for item in items if item["ordinal"] is not None]
    there = {id_ for id_, _ in one.tables.get("summary", ())}
    is_as_kept = bool(one.tables) and {summary["summary_id"] for summary in summaries} == there
    hidden = {row["item"] for row in tables["hidden_items"]}
    context = remnic_format.derive_context(keys, summaries, hidden, kept_context if is_as_kept else None)

    def pages() -> Iterator[list[RowValues]]:
        known, turns = {key.id: key for key in keys}, {turn.number: turn for turn in one.turns}
        for page in file.texts_and_parts([turn.number for turn in one.turns]):
            yield [_message(turns[number], known[turns[number].id], content, parts) for number, content, parts in page]

    return bundles.Bundle(_conversation(session, one, keys), keys, pages, summaries, context, tables)


def _conversation(session: str, one: _RemnicConversation, keys: list[bundles.MessageKey]) -> RowValues:
    kept = [restore_row(row) for _, row in one.tables.get("conversation", ())]
    if kept:
        return dict.fromkeys(bundles.CONVERSATION_COLUMNS) | bundles.fit_row(kept[0])
    times = [key.created_at for key in keys]
    titles = [title for turn in one.turns if isinstance(title := turn.metadata.get("title"), str) and title]
    made = min(times, default=row_time(datetime.now(UTC)))
    return {
        "conversation_id": one.number, "session_id": session, "session_key": None, "active": 1, "archived_at": None,
        "archive_cause": None, "title": titles[0] if titles else None, "bootstrapped_at": None, "created_at": made,
        "updated_at": max(times, default=made),
    }  # fmt: skip


def _message(turn: RemnicTurn, key: bundles.MessageKey, content: str, parts: list[RowValues]) -> RowValues:
    role = remnic_format.known_role(turn.role)
    columns = [remnic_format.part_to_columns(part | {"ordinal": n}, role) for n, part in enumerate(parts)]
    if role != turn.role and not columns:
        columns = [remnic_format.role_marker(turn.role)]
    if turn.kept is not None:
        for part, id_ in zip(columns, turn.kept.get("part_ids") or (), strict=False):
            part["part_id"] = id_ if isinstance(id_, str) else None
        for part, session in zip(columns, turn.kept.get("part_sessions") or (), strict=False):
            part |= {"session_id": session} if isinstance(session, str) else {}
        return _EMPTY | turn.kept | {"seq": turn.seq, "content": content, "parts": columns}
    return _EMPTY | {
        "message_id": turn.id, "seq": turn.seq, "role": role, "content": content, "token_count": turn.tokens,
        "identity_hash": key.identity, "transcript_entry_id": key.entry_id, "created_at": key.created_at,
        "parts": columns,
    }  # fmt: skip


def _summary(node: RowValues, ids: dict[int, MessageId], tables: dict[str, list[tuple[str, RowValues]]]) -> RowValues:
    kept = dict(tables.get("summary", ())).get(node["id"])
    made_of = {
        "summary_id": node["id"], "content": node["text"], "token_count": node["tokens"],
        "messages": [ids[number] for number in node["members"] if number in ids], "sources": node["below"],
    }  # fmt: skip
    if kept is not None:
        return dict.fromkeys(bundles.SUMMARY_COLUMNS) | bundles.fit_row(restore_row(kept)) | made_of
    return made_of | {
        "kind": "condensed" if node["below"] else "leaf", "depth": node["depth"], "earliest_at": None,
        "latest_at": None, "descendant_count": 0, "descendant_token_count": 0, "source_message_token_count": 0,
        "created_at": _row_time(node["created_at"]), "file_ids": "[]",
        "model": f"{remnic_format.REMNIC_MODEL}{node['escalation']}" if node["escalation"] else "remnic",
    }  # fmt: skip


def _row_time(text: str) -> str:
    try:
        return row_time(parse_time(text))
    except ValueError:
        return row_time(datetime.now(UTC))

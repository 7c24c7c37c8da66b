"""Imports Remnic databases, whose sessions become conversations, and exports an archive to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveCorrupt
from lossless.model.identity import identity_hash
from lossless.model.js_json import compact_json
from lossless.model.paths import expand_path
from lossless.model.times import row_time, state_time
from lossless.store import bundles
from lossless.store.bundles.other_programs import RemnicFile, check_remnic, explain_bad_text, open_claw
from lossless.store.rows import json_object
from lossless.transfer import files, remnic_format
from lossless.transfer.lossless_claw import TransferOptions, session_names, unknown_session_warnings
from lossless.transfer.merge import Merger, import_redacted
from lossless.transfer.merge_plan import ImportReport, valid_time
from lossless.transfer.remnic_format import RemnicNode, RemnicReport, remnic_session

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.bundles import MessageId, RowValues


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
    """Copy the sessions of a Remnic database into this archive; a repeated import adds nothing.

    What lossless or Remnic's importer wrote there becomes the original conversations, with our tables exactly.
    """
    place = check_remnic(find_database(source))
    files.check_not_archive(source, place, archive)
    if archive.redact is not None:
        return import_redacted(archive, vault, options, archive.redact, partial(import_remnic, source))
    with RemnicFile(place, read_only=True) as file, file.reading(), explain_bad_text(place):
        is_plain = "lcm_x_source_rows" not in file.tables()
        merger = Merger(archive, files.PayloadCopier(vault), options, boundaries=is_plain)
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
    owner = {turn.number: n for n, one in enumerate(conversations) for turn in one.turns}
    turns = {n: [(turn.turn, turn.number) for turn in one.turns] for n, one in enumerate(conversations)}
    owned, mixed = remnic_format.build_graph(file.nodes(session), owner, turns)
    report.warnings += [f"summary {id_!r} covers several conversations: left out" for id_ in mixed]
    report.summaries_without_sources += len(mixed)
    report.summaries_skipped_multi_session += len(mixed)
    came = [turn for one in conversations for turn in one.turns]
    unknown = [turn for turn in came if not isinstance(turn.metadata.get("identity_hash"), str)]
    roles = {turn.number: remnic_format.known_role(turn.role) for turn in unknown}
    pages = file.texts_and_parts([turn.number for turn in unknown])
    contents = {number: identity_hash(roles[number], content) for page in pages for number, content, _ in page}
    for n, conversation in enumerate(conversations):
        yield _bundle(file, session, conversation, owned.get(n, []), contents)


def _conversations(file: RemnicFile, session: str) -> list[_RemnicConversation]:
    """The messages of a session by the conversations that they came from; the rest continues the last of them."""
    found: dict[str, _RemnicConversation] = {}
    own: list[RemnicTurn] = []
    for row in file.rows(session):
        values = json_object(row["metadata"])
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
    rows = [(id_, bundles.fit_row(files.restore_row(row))) for id_, row in conversation.tables.get("message", ())]
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
        table: [files.extra_row(table, row) for _, row in one.tables.get(table, ())]
        for table in (*bundles.SIDE_TABLES, "focus_brief_sources", "former_summaries")
    }
    items = [
        dict.fromkeys(bundles.CONTEXT_COLUMNS) | bundles.fit_row(files.restore_row(row))
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
    kept = [files.restore_row(row) for _, row in one.tables.get("conversation", ())]
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
        return dict.fromkeys(bundles.SUMMARY_COLUMNS) | bundles.fit_row(files.restore_row(kept)) | made_of
    return made_of | {
        "kind": "condensed" if node["below"] else "leaf", "depth": node["depth"], "earliest_at": None,
        "latest_at": None, "descendant_count": 0, "descendant_token_count": 0, "source_message_token_count": 0,
        "created_at": _row_time(node["created_at"]), "file_ids": "[]",
        "model": f"{remnic_format.REMNIC_MODEL}{node['escalation']}" if node["escalation"] else "remnic",
    }  # fmt: skip


def _row_time(text: str) -> str:
    return row_time(valid_time(text) or datetime.now(UTC))


def export_claw_to_remnic(source: str | Path, place: str | Path, options: TransferOptions) -> RemnicReport:
    """Add the conversations of a lossless-claw database to Remnic's; see `export_remnic`."""
    with open_claw(source) as theirs:
        return export_remnic(theirs, None, place, options)


def export_remnic(
    source: Archive, vault: Vault | None, target: str | Path, options: TransferOptions | None = None
) -> RemnicReport:
    """Add the conversations of an archive to a Remnic database, which is created when missing.

    Existing turns keep their positions; a repeated export adds nothing. Everything is one transaction, at whose end the
    rows are read back and compared; only then does a new database replace the target.
    """
    wanted = options or TransferOptions()
    place = files.resolve_target(target)
    files.check_apart(place, source.path)
    with ExitStack() as stack:
        stack.enter_context(source.reading())
        stack.enter_context(explain_bad_text(source.path))
        if wanted.dry_run:
            file = stack.enter_context(RemnicFile(place, read_only=True))
            stack.enter_context(file.reading())
            file.check()
            return _RemnicExport(source, vault, file, wanted).run()
        where = place if place.exists() else stack.enter_context(files.writing_file(place))
        file = stack.enter_context(RemnicFile(where))
        file.check()
        stack.enter_context(file.writing())
        file.create(with_ours=not wanted.compat)
        return _RemnicExport(source, vault, file, wanted).run()


class _RemnicExport:
    def __init__(self, source: Archive, vault: Vault | None, file: RemnicFile, options: TransferOptions) -> None:
        self._vault, self._file, self._options = vault, file, options
        reader = bundles.BundleReader(source.database)
        self._bundles = [reader.bundle(conversation) for conversation in reader.conversations()]
        self._summaries = {one["summary_id"]: one for one in reader.all_summaries()}
        mine = [bundle.conversation for bundle in self._bundles if self._names(bundle) & options.sessions]
        #: The selected sessions of Remnic; empty when all are.
        self._sessions = frozenset(remnic_session(one, options.session_by) for one in mine) or options.sessions
        self._report = RemnicReport(len(self._bundles), dry_run=options.dry_run)
        self._session_progress = cache(file.session_progress)
        self._gained: set[str] = set()
        self._seen: set[str] = set()
        self._new: set[int] = set()

    def run(self) -> RemnicReport:
        options, report = self._options, self._report
        conversations = [(bundle.conversation, bundle.keys) for bundle in self._bundles]
        self._places = remnic_format.remnic_positions(
            conversations, options.session_by, self._session_progress, compat=options.compat
        )
        marks = (0, 0) if options.dry_run else self._file.marks()
        self._ids: dict[tuple[MessageId, MessageId], int] = {}
        for bundle in self._bundles:
            self._put_messages(bundle)
        linked = {source for one in self._summaries.values() for source in one["sources"]}
        there = self._file.nodes_there(set(self._summaries) | linked)
        at = {message: place for (_, message), place in self._places.items()}
        make = remnic_format.compatible_nodes if options.compat else remnic_format.faithful_nodes
        nodes, adopted = make(self._summaries, at, there, self._sessions, report)
        new = [node for node in nodes if not node.is_there]
        report.summaries_inserted += len(new)
        report.summaries_skipped += len(nodes) - len(new)
        self._seen.update(node.session for node in nodes)
        self._gained.update(node.session for node in new)
        if not options.dry_run:
            self._file.add_nodes(map(self._node, new), adopted)
            self._file.index_since(marks)
            if not options.compat:
                self._put_other_rows(nodes)
            self._prove(new)
        # a boundary for each session that gained something, or that never got its own
        healed = {session for session in self._seen if not self._session_progress(session)[2]}
        report.sessions_touched = sorted(self._gained | healed)
        report.compaction_events_inserted = len(report.sessions_touched)
        for session in () if options.dry_run else report.sessions_touched:
            self._file.add_boundary(session, state_time(datetime.now(UTC)))
        report.warnings += unknown_session_warnings(map(self._names, self._bundles), options.sessions)
        return report

    def _names(self, bundle: bundles.Bundle) -> set[str]:
        """The names of a conversation in a filter: its run's id, its key, or its session in Remnic."""
        return {remnic_session(bundle.conversation, self._options.session_by), *session_names(bundle.conversation)}

    def _is_wanted(self, session: str) -> bool:
        return not self._sessions or session in self._sessions

    def _put_messages(self, bundle: bundles.Bundle) -> None:
        session = remnic_session(bundle.conversation, self._options.session_by)
        if not self._is_wanted(session):
            if self._options.compat:
                pages = bundle.pages()
                self._report.message_parts_skipped += sum(len(one["parts"]) for page in pages for one in page)
            return
        self._seen |= {session} if bundle.keys else set()
        number = bundle.conversation["conversation_id"]
        next_id = self._file.next_message()
        for page in bundle.pages():
            at = [self._places[number, message["message_id"]] for message in page]
            known = [id_ for _, _, id_ in at if id_ is not None]
            parts_there = self._file.parts_there(known)
            rows: list[tuple[object, ...]] = []
            parts: list[tuple[object, ...]] = []
            for message, (_, turn, id_) in zip(page, at, strict=True):
                if id_ is None:
                    id_ = next_id
                    next_id += 1
                    self._new.add(id_)
                    rows.append((session, turn, *self._row(bundle, message), id_))
                self._ids[number, message["message_id"]] = id_
                parts += self._parts(message, id_, parts_there)
            report = self._report
            report.messages_inserted += len(rows)
            report.messages_skipped += len(page) - len(rows)
            report.message_parts_inserted += len(parts)
            report.message_parts_skipped += sum(len(_real(message["parts"])) for message in page) - len(parts)
            if rows or parts:
                self._gained.add(session)
            if not self._options.dry_run:
                self._file.add_messages(rows, parts)
            if self._options.progress:
                self._options.progress(len(page))

    def _row(self, bundle: bundles.Bundle, message: RowValues) -> tuple[object, ...]:
        number, title = bundle.conversation["conversation_id"], bundle.conversation["title"]
        about = {"conversation_id": number, "identity_hash": message["identity_hash"]}
        metadata = about | {"source": "lossless-claw", "source_seq": message["seq"], "title": title}
        role, tokens = remnic_format.remnic_role(message), message["token_count"] or 0
        at, text = self._time(message["created_at"]), compact_json(metadata)
        return role, message["content"], tokens, at, text

    def _time(self, text: str | None) -> str:
        """A time as Remnic writes it; an invalid one is unchanged."""
        if self._options.compat and text:
            return text
        moment = valid_time(text)
        return text if text and moment is None else state_time(moment or datetime.now(UTC))

    def _parts(self, message: RowValues, id_: int, there: set[tuple[int, int]]) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for given in _real(message["parts"]):
            if (id_, given["ordinal"]) not in there:
                part = remnic_format.part_to_remnic(given)
                at = part["created_at"] or self._time(message["created_at"])
                row = (id_, part["ordinal"], part["kind"], part["payload"], part["tool_name"], part["file_path"], at)
                found.append(row)
        return found

    def _node(self, node: RemnicNode) -> RowValues:
        one = node.summary
        at = one["latest_at"] or one["earliest_at"] or one["created_at"]
        before, is_theirs, level = str(one["model"] or "").partition(remnic_format.REMNIC_MODEL)
        return {
            "id": node.id, "session_id": node.session, "depth": node.depth, "parent_id": node.parent,
            "text": one["content"], "tokens": one["token_count"] or 0, "start": node.start, "end": node.end,
            "escalation": int(level) if is_theirs and not before and level.isdigit() else 0,
            "created_at": self._time(at),
        }  # fmt: skip

    def _put_other_rows(self, nodes: Sequence[RemnicNode]) -> None:
        wanted = {node.id for node in nodes}
        for bundle in self._bundles:
            number = bundle.conversation["conversation_id"]
            if not self._is_wanted(remnic_session(bundle.conversation, self._options.session_by)):
                continue
            mine = [one for one in bundle.summaries if one["summary_id"] in wanted]
            edges = [(one["summary_id"], source, n) for one in mine for n, source in enumerate(one["sources"])]
            messages = [
                (one["summary_id"], self._ids[number, id_], n)
                for one in mine for n, id_ in enumerate(one["messages"]) if (number, id_) in self._ids
            ]  # fmt: skip
            rows = remnic_format.extra_table_rows(bundle, self._vault)
            self._file.put_beside(str(number), rows, edges, messages)

    def _prove(self, new: Sequence[RemnicNode]) -> None:
        """Read what was added; raises, and so rolls everything back, when it differs from the plan."""
        for bundle in self._bundles:
            session = remnic_session(bundle.conversation, self._options.session_by)
            if self._is_wanted(session) and bundle.keys:
                self._prove_messages(bundle, {row["id"]: row for row in self._file.rows(session)})
        for session in {node.session for node in new}:
            there = {node["id"]: node for node in self._file.nodes(session)}
            for node in (one for one in new if one.session == session):
                back = there.get(node.id, {})
                found = tuple(back.get(name) for name in ("text", "depth", "parent_id", "start", "end"))
                if found != (node.summary["content"], node.depth, node.parent, node.start, node.end):
                    wrong = f"summary {node.id!r}, read back, is not what was written"
                    raise ArchiveCorrupt(f"{wrong}; everything was rolled back")

    def _prove_messages(self, bundle: bundles.Bundle, there: dict[int, RowValues]) -> None:
        number = bundle.conversation["conversation_id"]
        for page in bundle.pages():
            new = {self._ids[number, one["message_id"]]: one for one in page}
            ids = [id_ for id_ in new if id_ in self._new]
            found = {id_: (content, parts) for some in self._file.texts_and_parts(ids) for id_, content, parts in some}
            for id_ in ids:
                message, (content, parts) = new[id_], found[id_]
                _, turn, _ = self._places[number, message["message_id"]]
                payloads = [remnic_format.part_to_remnic(part)["payload"] for part in _real(message["parts"])]
                is_same_row = (content, there[id_]["turn"]) == (message["content"], turn)
                if not is_same_row or [part["payload"] for part in parts] != payloads:
                    raise ArchiveCorrupt(f"turn {turn}, read back, is not what was written; everything was rolled back")


def _real(parts: list[RowValues]) -> list[RowValues]:
    """Parts without the marks that an import from Remnic leaves."""
    return [part for part in parts if not remnic_format.is_role_marker(part)]

"""Exports an archive, or a lossless-claw database, to a Remnic database."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt
from lossless.model.js_json import compact_json
from lossless.model.times import parse_time, state_time
from lossless.store.bundles import Bundle, BundleReader
from lossless.store.bundles.other_programs import RemnicFile, explain_bad_text, open_claw
from lossless.transfer import remnic_format
from lossless.transfer.files import check_apart, resolve_target, writing_file
from lossless.transfer.lossless_claw import TransferOptions, session_names, unknown_session_warnings
from lossless.transfer.remnic_format import (
    REMNIC_MODEL,
    RemnicNode,
    RemnicReport,
    compatible_nodes,
    faithful_nodes,
    part_to_remnic,
    remnic_positions,
    remnic_session,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.bundles import MessageId, RowValues
    from lossless.store.bundles.other_programs import RemnicSession


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
    place = resolve_target(target)
    check_apart(place, source.path)
    with ExitStack() as stack:
        stack.enter_context(source.reading())
        stack.enter_context(explain_bad_text(source.path))
        if wanted.dry_run:
            file = stack.enter_context(RemnicFile(place, read_only=True))
            stack.enter_context(file.reading())
            file.check()
            return _RemnicExport(source, vault, file, wanted).run()
        where = place if place.exists() else stack.enter_context(writing_file(place))
        file = stack.enter_context(RemnicFile(where))
        file.check()
        stack.enter_context(file.writing())
        file.create(with_ours=not wanted.compat)
        return _RemnicExport(source, vault, file, wanted).run()


class _RemnicExport:
    def __init__(self, source: Archive, vault: Vault | None, file: RemnicFile, options: TransferOptions) -> None:
        self._vault, self._file, self._options = vault, file, options
        reader = BundleReader(source.database)
        self._bundles = [reader.bundle(conversation) for conversation in reader.conversations()]
        self._summaries = {one["summary_id"]: one for one in reader.all_summaries()}
        mine = [bundle.conversation for bundle in self._bundles if self._names(bundle) & options.sessions]
        #: The selected sessions of Remnic; empty when all are.
        self._sessions = frozenset(remnic_session(one, options.session_by) for one in mine) or options.sessions
        self._report = RemnicReport(len(self._bundles), dry_run=options.dry_run)
        self._progress: dict[str, RemnicSession] = {}
        self._gained: dict[str, int] = {}
        self._seen: set[str] = set()
        self._new: set[int] = set()

    def run(self) -> RemnicReport:
        options, report = self._options, self._report
        conversations = [(bundle.conversation, bundle.keys) for bundle in self._bundles]
        self._places = remnic_positions(
            conversations, options.session_by, self._session_progress, compat=options.compat
        )
        marks = (0, 0) if options.dry_run else self._file.marks()
        self._ids: dict[tuple[MessageId, MessageId], int] = {}
        for bundle in self._bundles:
            self._put_messages(bundle)
        linked = {source for one in self._summaries.values() for source in one["sources"]}
        there = self._file.nodes_there(set(self._summaries) | linked)
        at = {message: place for (_, message), place in self._places.items()}
        make = compatible_nodes if options.compat else faithful_nodes
        nodes, adopted = make(self._summaries, at, there, self._sessions, report)
        self._put_nodes(nodes, adopted)
        if not options.dry_run:
            self._file.index_since(marks)
            if not options.compat:
                self._put_other_rows(nodes)
            self._prove(nodes)
        # a boundary for each session that gained something, or that never got its own
        healed = {session for session in self._seen if not self._session_progress(session)[2]}
        report.sessions_touched = sorted(set(self._gained) | healed)
        report.compaction_events_inserted = len(report.sessions_touched)
        for session in () if options.dry_run else report.sessions_touched:
            self._file.add_boundary(session, state_time(datetime.now(UTC)))
        report.warnings += unknown_session_warnings(map(self._names, self._bundles), options.sessions)
        return report

    def _names(self, bundle: Bundle) -> set[str]:
        """The names of a conversation in a filter: its run's id, its key, or its session in Remnic."""
        return {remnic_session(bundle.conversation, self._options.session_by), *session_names(bundle.conversation)}

    def _session_progress(self, session: str) -> RemnicSession:
        if session not in self._progress:
            self._progress[session] = self._file.session_progress(session)
        return self._progress[session]

    def _is_wanted(self, session: str) -> bool:
        return not self._sessions or session in self._sessions

    # --- messages -------------------------------------------------------------------------------------

    def _put_messages(self, bundle: Bundle) -> None:
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
                self._gained[session] = self._gained.get(session, 0) + sum(int(str(row[4])) for row in rows)
            if not self._options.dry_run:
                self._file.add_messages(rows, parts)
            if self._options.progress:
                self._options.progress(len(page))

    def _row(self, bundle: Bundle, message: RowValues) -> tuple[object, ...]:
        given = bundle.conversation
        metadata = {
            "conversation_id": given["conversation_id"], "identity_hash": message["identity_hash"],
            "source": "lossless-claw", "source_seq": message["seq"], "title": given["title"],
        }  # fmt: skip
        role, tokens = remnic_format.remnic_role(message), message["token_count"] or 0
        at, text = self._time(message["created_at"]), compact_json(metadata)
        return role, message["content"], tokens, at, text

    def _time(self, text: str | None) -> str:
        """A time as Remnic writes it; an invalid one is unchanged."""
        if self._options.compat and text:
            return text
        try:
            return state_time(parse_time(text or ""))
        except ValueError:
            return text or state_time(datetime.now(UTC))

    def _parts(self, message: RowValues, id_: int, there: set[tuple[int, int]]) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for given in _real(message["parts"]):
            if (id_, given["ordinal"]) not in there:
                part = part_to_remnic(given)
                at = part["created_at"] or self._time(message["created_at"])
                row = (id_, part["ordinal"], part["kind"], part["payload"], part["tool_name"], part["file_path"], at)
                found.append(row)
        return found

    # --- summaries ------------------------------------------------------------------------------------

    def _put_nodes(self, nodes: Sequence[RemnicNode], adopted: list[tuple[str, str]]) -> None:
        report, new = self._report, [node for node in nodes if not node.is_there]
        report.summaries_inserted += len(new)
        report.summaries_skipped += len(nodes) - len(new)
        for node in nodes:
            self._seen.add(node.session)
        for node in new:
            self._gained.setdefault(node.session, 0)
        if not self._options.dry_run:
            self._file.add_nodes([self._node(node) for node in new], adopted)

    def _node(self, node: RemnicNode) -> RowValues:
        one = node.summary
        at = one["latest_at"] or one["earliest_at"] or one["created_at"]
        model = str(one["model"] or "")
        escalation = int(model.removeprefix(REMNIC_MODEL)) if model.removeprefix(REMNIC_MODEL).isdigit() else 0
        return {
            "id": node.id, "session_id": node.session, "depth": node.depth, "parent_id": node.parent,
            "text": one["content"], "tokens": one["token_count"] or 0, "start": node.start, "end": node.end,
            "escalation": escalation if model.startswith(REMNIC_MODEL) else 0, "created_at": self._time(at),
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

    # --- read back ------------------------------------------------------------------------------------

    def _prove(self, nodes: Sequence[RemnicNode]) -> None:
        """Read what was added; raises, and so rolls everything back, when it differs from the plan."""
        for bundle in self._bundles:
            session = remnic_session(bundle.conversation, self._options.session_by)
            if self._is_wanted(session) and bundle.keys:
                self._prove_messages(bundle, {row["id"]: row for row in self._file.rows(session)})
        new = [node for node in nodes if not node.is_there]
        for session in {node.session for node in new}:
            there = {node["id"]: node for node in self._file.nodes(session)}
            for node in (one for one in new if one.session == session):
                back = there.get(node.id, {})
                found = tuple(back.get(name) for name in ("text", "depth", "parent_id", "start", "end"))
                if found != (node.summary["content"], node.depth, node.parent, node.start, node.end):
                    raise ArchiveCorrupt(
                        f"summary {node.id!r}, read back, is not what was written; everything was rolled back"
                    )

    def _prove_messages(self, bundle: Bundle, there: dict[int, RowValues]) -> None:
        number = bundle.conversation["conversation_id"]
        for page in bundle.pages():
            new = {self._ids[number, one["message_id"]]: one for one in page}
            ids = [id_ for id_ in new if id_ in self._new]
            found = {id_: (content, parts) for some in self._file.texts_and_parts(ids) for id_, content, parts in some}
            for id_ in ids:
                message, (content, parts) = new[id_], found[id_]
                _, turn, _ = self._places[number, message["message_id"]]
                payloads = [part_to_remnic(part)["payload"] for part in _real(message["parts"])]
                is_same_row = (content, there[id_]["turn"]) == (message["content"], turn)
                if not is_same_row or [part["payload"] for part in parts] != payloads:
                    raise ArchiveCorrupt(f"turn {turn}, read back, is not what was written; everything was rolled back")


def _real(parts: list[RowValues]) -> list[RowValues]:
    """Parts without the marks that an import from Remnic leaves."""
    return [part for part in parts if not remnic_format.is_role_marker(part)]

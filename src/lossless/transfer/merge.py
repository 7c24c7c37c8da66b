"""Merges a conversation into an archive: existing rows stay, new ones are added, what was forgotten stays so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lossless.compaction.summariser import Summariser
from lossless.files.vault import Vault
from lossless.maintenance.forget import ForgetRequest, ForgetTools, reapply_forgotten, run_forget
from lossless.model.identity import identity_hash
from lossless.model.identity import summary_id as new_summary_id
from lossless.model.masking import FORGOTTEN, CutText
from lossless.model.records import ContextChange
from lossless.model.times import row_time
from lossless.settings import Settings
from lossless.store.archive import Archive
from lossless.store.bundles import Bundle, BundleReader, BundleWriter, MessageId, RowValues, message_copy
from lossless.store.context import item_id
from lossless.store.state import EVERYWHERE
from lossless.transfer import merge_plan
from lossless.transfer.files import PayloadCopier
from lossless.transfer.remnic_format import known_role, part_to_columns

if TYPE_CHECKING:
    from lossless.store.versions import MessageCopy
    from lossless.transfer.lossless_claw import TransferOptions

#: What was in a file is moved to a file again: the lowest size that a setting allows.
_FILE_TOKENS = 1000


def with_forgotten_identities(archive: Archive, bundle: Bundle) -> Bundle:
    """The conversation with the local identities of its forgotten messages, so that none is stored twice."""
    if not (rounds := archive.tombstones.rounds()):
        return bundle
    number = bundle.conversation["conversation_id"]
    others: dict[MessageId, str] = {}
    for page in bundle.pages():
        for message in page:
            content, print_ = message["content"], message["fingerprint"]
            digest = None if print_ is None else archive.tombstones.digest(print_)
            for round_ in rounds:
                if not isinstance(round_, frozenset):
                    content = round_(content)
                elif digest is not None and {(digest, EVERYWHERE), (digest, number)} & round_:
                    content = FORGOTTEN
                    break
            if content is not message["content"]:
                others[message["message_id"]] = identity_hash(message["role"] or "", content)
    keys = [key._replace(identity=others[key.id]) if key.id in others else key for key in bundle.keys]
    return replace(bundle, keys=keys) if others else bundle


def _forget_tools(archive: Archive, vault: Vault | None, now: datetime) -> ForgetTools:
    return ForgetTools(archive, vault, Summariser(Settings()), _FILE_TOKENS, now)


#: Bytes for each message.
_MARK = 20
_TEXTS = ("session_key", "path", "header_id")


def valid_pruned_rows(rows: Iterable[RowValues], report: merge_plan.ImportReport) -> list[RowValues]:
    """The valid rows about deleted conversations, without duplicates, by number; each invalid one adds a warning."""
    found: dict[object, RowValues] = {}
    for row in rows:
        one = dict.fromkeys((*_TEXTS, "marks", "number", "at")) | row
        marks, texts = one["marks"], [one[name] for name in _TEXTS]
        is_marked = isinstance(marks, bytes) and marks and not len(marks) % _MARK
        is_valid = is_marked and type(one["number"]) is int and merge_plan.valid_time(one["at"])
        if is_valid and all(text is None or isinstance(text, str) for text in texts):
            found.setdefault((*texts, marks), one)
        else:
            report.warnings.append("an invalid record of a deleted conversation: left out")
    return sorted(found.values(), key=lambda row: row["number"])


#: The cause of hiding an imported message when its own archive gave none.
IMPORTED = "imported"
_STATES = (
    "transcript_epochs", "last_windows", "ingest_state", "conversation_bootstrap_state",
    "conversation_compaction_telemetry", "conversation_compaction_maintenance", "transcript_state",
    "transcript_records",
)  # fmt: skip


class Merger:
    """Merges conversations one by one, each in its own transaction; a dry run only counts.

    With `boundaries` each session that gains something gets a log entry, with equal tokens before and after; imports
    from our archives bring their own log instead.
    """

    def __init__(
        self, archive: Archive, payloads: PayloadCopier, options: TransferOptions, *, boundaries: bool = False
    ) -> None:
        self._archive, self._payloads, self._now = archive, payloads, datetime.now(UTC)
        self._writer = BundleWriter(archive)
        self._progress = options.progress or (lambda _: None)
        self._claimed: set[int] = set()
        #: Conversations of the source that are here, by their numbers there.
        self._came: dict[Any, int] = {}
        self._emptied: set[Any] = set()
        self._planned: dict[str, set[str]] = {"summaries": set(), "files": set(), "briefs": set()}
        self._actives: set[str] = set()
        self._boundaries = boundaries
        self._bounded: set[str] = set()
        #: Forks and the conversations they depend on, by their numbers there.
        self._forks: list[tuple[Any, Any]] = []
        self.report = merge_plan.ImportReport(options.dry_run)

    def add(self, bundle: Bundle) -> None:
        bundle = with_forgotten_identities(self._archive, bundle)
        self.report.conversations_scanned += 1
        if self.report.dry_run:
            with self._archive.reading():
                self._count(self._plan(bundle))
        else:
            with self._archive.writing():
                plan = self._plan(bundle)
                self._count(plan)
                lacks = plan.without_bytes or plan.copies or self._new_pins(plan)
                if plan.changes or any(plan.is_new.values()) or lacks:
                    self._apply(plan)
        mine = bundle.conversation["conversation_id"]
        self._forks += [(mine, row.get("source_id")) for row in bundle.tables.get("fork_sources", ())]
        self._progress(len(bundle.keys))

    def finish(self, pruned: Iterable[RowValues] = ()) -> None:
        """After the last conversation: link forks, record deleted conversations, apply what was forgotten."""
        found, came = valid_pruned_rows(pruned, self.report), self._came
        forks = [(came[one], came[other]) for one, other in self._forks if {one, other} <= came.keys()]
        if found or forks:
            with self._archive.reading() if self.report.dry_run else self._archive.writing():
                new = [row for row in found if self._writer.lacks_pruned(row)]
                self.report.pruned_inserted += len(new)
                if not self.report.dry_run:
                    self._writer.put_pruned(new)
                    self._writer.rely(forks)
        if not self.report.dry_run:
            tools = _forget_tools(self._archive, self._payloads.vault, self._now)
            touched = reapply_forgotten(tools)
            self.report.warnings += () if touched is None else touched.left

    def _plan(self, bundle: Bundle) -> merge_plan.ImportPlan:
        target, known = self._find(bundle)
        plan = merge_plan.ImportPlan(bundle, target, known)
        if target is None:
            ids = [key.id for key in bundle.keys]
            is_free = self._writer.is_free(bundle.conversation["conversation_id"], ids)
            plan.keeps_numbers = is_free and plan.are_numbers_explained
        else:
            self._claimed.add(target)
            self._came[bundle.conversation["conversation_id"]] = target
        self._plan_summaries(plan)
        for what, table, name in (("files", "large_files", "file_id"), ("briefs", "focus_briefs", "brief_id")):
            ids_ = [row[name] for row in bundle.tables.get(table, ())]
            taken = set(self._writer.taken(what, ids_)) | self._planned[what]
            plan.is_new[what] = {id_ for id_ in ids_ if id_ not in taken}
            self._planned[what] |= plan.is_new[what]
        rows = {row["file_id"]: row for row in bundle.tables.get("large_files", ())}
        there = self._archive.files.many(rows.keys() - plan.is_new["files"])
        mine = [file for file in there.values() if file.conversation_id == target and self._payloads.lacks(file)]
        plan.without_bytes = [rows[file.id] for file in mine if self._payloads.has(rows[file.id])]
        plan.copies = self._copies(plan)
        is_first = self._boundaries and bundle.session not in self._bounded
        plan.has_boundary = is_first if target is None else plan.gains
        if plan.has_boundary:
            self._bounded.add(bundle.session)
        return plan

    def _copies(self, plan: merge_plan.ImportPlan) -> list[tuple[int, MessageCopy]]:
        """Existing messages for which the import has further wordings."""
        if plan.target is None or not plan.messages:
            return []
        here = {key.id: key.identity for key in self._writer.keys(plan.target)}
        coming = {key.id: key.identity for key in plan.bundle.keys}
        found: list[tuple[int, MessageCopy]] = []
        for page in plan.bundle.pages():
            for message in page:
                id_ = plan.messages.get(message["message_id"])
                is_other = id_ is not None and here[id_] != coming[message["message_id"]]
                if id_ is None or not (is_other or message.get("versions")):
                    continue
                parts = [part_to_columns(part, known_role(message["role"])) for part in message["parts"]]
                copy = message_copy(message | {"parts": parts}, is_other=is_other)
                if self._archive.versions.lacks(id_, copy):
                    found.append((id_, copy))
        return found

    def _find(self, bundle: Bundle) -> tuple[int | None, dict[MessageId, int]]:
        """The conversation of the archive that this one continues, if any, and the messages that both have."""
        session_key = bundle.conversation["session_key"]
        best: tuple[tuple[int, ...], int, dict[MessageId, int]] | None = None
        for candidate in self._writer.candidates(session_key, bundle.session):
            id_ = candidate["conversation_id"]
            if id_ in self._claimed:
                continue
            there = self._writer.keys(id_)
            known, is_sure = merge_plan.align_messages(bundle.keys, there)
            same_run = candidate["session_id"] == bundle.session
            same_time = candidate["created_at"] == bundle.conversation["created_at"]
            if bundle.keys and there:
                is_it = is_sure or (same_run and bool(known))
            else:
                is_it = same_run and (same_time or not there)
            likeness = (len(known), -len(there), same_run, same_time)
            if is_it and (best is None or likeness > best[0]):
                best = likeness, id_, known
        return (None, {}) if best is None else best[1:]

    def _plan_summaries(self, plan: merge_plan.ImportPlan) -> None:
        found, plan.dropped = merge_plan.order_summaries(plan.bundle)
        # names for summaries whose own are used by other conversations; the same each time
        prefix = f"{plan.bundle.session}\0{plan.bundle.conversation['session_key']}\0"
        ids = {one["summary_id"]: one["content"] for one in found}
        again = {id_: new_summary_id(content, prefix + id_) for id_, content in ids.items()}
        taken = self._writer.taken("summaries", [*again, *again.values()])
        for one in found:
            id_ = one["summary_id"]
            is_used = (id_ in taken and taken[id_] != plan.target) or id_ in self._planned["summaries"]
            name = plan.names[id_] = again[id_] if is_used else id_
            self._planned["summaries"].add(name)
            if name in taken:
                plan.known_summaries += 1
            else:
                plan.summaries.append(one)

    def _count(self, plan: merge_plan.ImportPlan) -> None:
        report, bundle = self.report, plan.bundle
        report.conversations_inserted += plan.target is None
        report.conversations_joined += plan.target is not None and plan.gains
        report.messages_inserted += plan.new_count
        report.messages_skipped += len(plan.messages)
        report.versions_inserted += sum(self._archive.versions.lacks(id_, copy) for id_, copy in plan.copies)
        report.summaries_inserted += len(plan.summaries)
        report.summaries_skipped += plan.known_summaries
        lost = [one for one in bundle.summaries if one["summary_id"] in set(plan.dropped)]
        linked = sum(bool(one["messages"] or one["sources"]) for one in lost)
        report.summaries_without_sources += len(lost)
        report.summaries_skipped_multi_session += linked
        report.summaries_skipped_no_messages += len(lost) - linked
        report.compaction_events_inserted += plan.has_boundary
        report.briefs_inserted += len(plan.is_new["briefs"])
        report.pins_inserted += len(self._new_pins(plan))
        files = bundle.tables.get("large_files", ())
        report.files_skipped += len(files) - len(plan.is_new["files"]) - len(plan.without_bytes)
        if plan.changes:
            report.sessions_touched.add(bundle.session)
        if self._conflicts(plan):
            report.warnings.append(
                f"session key {bundle.conversation['session_key']!r} is already active here: "
                f"the conversation of run {bundle.session!r} is imported as an archived one"
            )
        report.warnings.extend(f"summary {id_!r} has no sources in its conversation: left out" for id_ in plan.dropped)
        report.message_parts_skipped += plan.count_parts(known=True) if plan.messages else 0
        if report.dry_run:  # what is otherwise counted when it is written
            report.message_parts_inserted += plan.count_parts(known=False) if plan.new_count else 0
            for file in (*plan.new_files(), *plan.without_bytes):
                self._payloads.look(file, report)
            report.messages_hidden += self._lost_count(plan)

    def _lost_count(self, plan: merge_plan.ImportPlan) -> int:
        """How many messages will be outside of the context without a cause."""
        hidden: set[object] = {row["item"] for row in plan.bundle.tables.get("hidden_items", ())}
        if plan.target is not None:
            if not plan.changes or not self._goes_along(plan, set(plan.messages.values())):
                return 0
            names = {name: id_ for id_, name in (*plan.messages.items(), *plan.names.items())}
            hidden |= {names.get(item) for item in self._writer.hidden(plan.target)}
        messages = merge_plan.messages_below(merge_plan.order_summaries(plan.bundle)[0])
        shown = {item["summary_id"] or item["message_id"] for item in plan.bundle.context} | hidden
        covered = {id_ for item in shown for id_ in messages.get(str(item), ())}
        return sum(key.id not in shown and key.id not in covered for key in plan.bundle.keys)

    def _apply(self, plan: merge_plan.ImportPlan) -> None:
        bundle = plan.bundle
        known = set(plan.messages.values())
        is_new = plan.target is None
        conversation_id = plan.target
        if conversation_id is None:
            given, now = bundle.conversation, row_time(self._now)
            values = {name: value for name, value in given.items() if name != "conversation_id" or plan.keeps_numbers}
            values |= {"session_id": bundle.session, "active": int(bool(given["active"]))}
            values |= {name: given[name] or now for name in ("created_at", "updated_at")}
            if self._conflicts(plan):
                values |= {"active": 0, "archived_at": now, "archive_cause": "import"}
            conversation_id = self._writer.put_conversation(values)
        plan.target = conversation_id
        self._claimed.add(conversation_id)  # two conversations of a source stay two
        self._came[bundle.conversation["conversation_id"]] = conversation_id
        if is_new and not bundle.keys:
            self._emptied.add(bundle.conversation["conversation_id"])
        files = [self._payloads.bring(file, conversation_id, self.report) for file in plan.new_files()]
        self._writer.put_beside("large_files", conversation_id, files)
        self._archive.row_digests.put_payloads(self._payloads.brought)
        for file in plan.without_bytes:
            self._payloads.bring(file, conversation_id, self.report)
        new = self._put_messages(plan, conversation_id, is_new=is_new) if len(known) < len(bundle.keys) else []
        for id_, copy in plan.copies:
            self._archive.versions.bring(id_, copy, self._now)
        summaries = [merge_plan.rename_summary(plan, one, self._now) for one in plan.summaries]
        self._writer.put_summaries(conversation_id, summaries)
        pins = self._put_pins(plan, conversation_id)
        if is_new:
            self._writer.set_context(conversation_id, merge_plan.context_rows(plan, self._now))
            self._put_history(plan, conversation_id, pins)
            if plan.has_boundary:
                size = self._archive.context.tokens(conversation_id)
                boundary = ContextChange("import", "import", IMPORTED, tokens_before=size, tokens_after=size)
                self._archive.context.log(conversation_id, boundary, self._now)
        elif new or plan.summaries:
            self._join_context(plan, conversation_id, known, new)
        self._put_other_rows(plan, conversation_id, is_new=is_new)
        lost = self._archive.checks.unreachable(conversation_id) if is_new or new else []
        if lost:
            self._archive.context.hide(conversation_id, lost, IMPORTED, self._now)
            self.report.messages_hidden += len(lost)
        # messages that a host put before older ones, where the imported log does not explain them
        if moved := tuple(id_ for id_, is_logged in self._writer.moved(conversation_id).items() if not is_logged):
            size = self._archive.context.tokens(conversation_id)
            change = ContextChange("branch", "import", IMPORTED, added=moved, tokens_before=size, tokens_after=size)
            self._archive.context.log(conversation_id, change, self._now)

    def _conflicts(self, plan: merge_plan.ImportPlan) -> bool:
        given = plan.bundle.conversation
        if plan.target is not None or not given["active"] or given["session_key"] is None:
            return False
        key: str = given["session_key"]
        is_taken = key in self._actives if self.report.dry_run else False
        self._actives.add(key)
        return is_taken or self._writer.has_active(key)

    def _put_messages(self, plan: merge_plan.ImportPlan, conversation_id: int, *, is_new: bool) -> list[int]:
        next_id, next_seq = self._writer.next_places(conversation_id)
        identities = {key.id: key.identity for key in plan.bundle.keys}
        added: list[int] = []
        keeps_places = is_new and plan.keeps_places
        known, at, now = frozenset(plan.messages), str(plan.bundle.conversation["created_at"]), row_time(self._now)
        for page in plan.bundle.pages():
            batch = []
            for message in page:
                given = message["message_id"]
                if given in known:
                    continue
                plan.messages[given] = given if plan.keeps_numbers else next_id + len(added)
                at = next((str(one) for one in (message["created_at"], at) if merge_plan.valid_time(one)), now)
                added.append(plan.messages[given])
                seq = message["seq"] if keeps_places else next_seq + len(added) - 1
                role = known_role(message["role"])
                batch.append(
                    message
                    | {"message_id": plan.messages[given], "conversation_id": conversation_id, "seq": seq, "role": role,
                       "created_at": at, "identity_hash": identities[given], "token_count": message["token_count"] or 0,
                       "parts": [part_to_columns(part, role) for part in message["parts"]]}
                )  # fmt: skip
            if batch:
                self._writer.put_messages(plan.bundle.session, batch)
                self.report.message_parts_inserted += sum(len(message["parts"]) for message in batch)
        return added

    def _join_context(self, plan: merge_plan.ImportPlan, conversation_id: int, known: set[int], new: list[int]) -> None:
        """Add to the context of a known conversation: use the imported one if the archive's is unchanged."""
        items = self._archive.context.items(conversation_id)
        there = [item_id(item) for item in items]
        theirs = {plan.item(row["item"]) for row in plan.bundle.tables.get("hidden_items", ())}
        before = sum(item.tokens for item in items)
        if self._goes_along(plan, known):
            self._writer.set_context(conversation_id, merge_plan.context_rows(plan, self._now))
        else:
            ordinal = items[-1].ordinal + 1 if items else 0
            shown = [id_ for id_ in new if id_ not in theirs]
            for n, id_ in enumerate(shown):
                self._archive.context.put(conversation_id, ordinal + n, id_, self._now)
        after = self._archive.context.items(conversation_id)
        now_there = [item_id(item) for item in after]
        change = ContextChange(
            "import", "import", IMPORTED,
            removed=tuple(item for item in there if item not in set(now_there)),
            added=tuple(item for item in now_there if item not in set(there)),
            tokens_before=before, tokens_after=sum(item.tokens for item in after),
        )  # fmt: skip
        self._archive.context.log(conversation_id, change, self._now)

    def _goes_along(self, plan: merge_plan.ImportPlan, known: set[int]) -> bool:
        """Whether the archive made no changes of its own to this context."""
        assert plan.target is not None
        there = {item_id(item) for item in self._archive.context.items(plan.target)}
        hidden = {item for item, cause in self._writer.hidden(plan.target).items() if cause != IMPORTED}
        theirs = {plan.item(row["item"]) for row in plan.bundle.tables.get("hidden_items", ())}
        return there <= known | set(plan.names.values()) and hidden <= theirs

    def _new_pins(self, plan: merge_plan.ImportPlan) -> list[RowValues]:
        pinned = set() if plan.target is None else set(self._writer.pinned(plan.target))
        rows = plan.bundle.tables.get("pins", ())
        return [row for row in rows if (plan.messages.get(row["message_id"]), row["content"]) not in pinned]

    def _put_pins(self, plan: merge_plan.ImportPlan, conversation_id: int) -> dict[int, int]:
        pins = [row | {"message_id": plan.messages.get(row["message_id"])} for row in self._new_pins(plan)]
        real = [row for row in pins if row["message_id"] is not None or row["content"] is not None]
        numbers = self._writer.numbers("pins", [row.get("pin_id") for row in real])
        numbered = list(zip(real, numbers, strict=True))
        self._writer.put_beside("pins", conversation_id, [row | {"pin_id": number} for row, number in numbered])
        return {row["pin_id"]: number for row, number in numbered if "pin_id" in row}

    def _put_other_rows(self, plan: merge_plan.ImportPlan, conversation_id: int, *, is_new: bool) -> None:
        tables, writer = plan.bundle.tables, self._writer
        briefs = [row for row in tables.get("focus_briefs", ()) if row["brief_id"] in plan.is_new["briefs"]]
        if not is_new:
            briefs = [row | {"status": "inactive" if row["status"] == "active" else row["status"]} for row in briefs]
        writer.put_beside("focus_briefs", conversation_id, briefs)
        cited = [row for row in tables.get("focus_brief_sources", ()) if row["brief_id"] in plan.is_new["briefs"]]
        named = [(row, plan.names.get(row["summary_id"])) for row in cited]
        known = [row | {"summary_id": name} for row, name in named if name is not None]
        writer.put_beside("focus_brief_sources", conversation_id, known)
        there = set() if is_new else set(writer.hidden(conversation_id))
        shown = {item_id(item) for item in self._archive.context.items(conversation_id)}
        hidden = [row | {"item": plan.item(row["item"])} for row in tables.get("hidden_items", ())]
        wanted = [row for row in hidden if row["item"] is not None and row["item"] not in there | shown]
        writer.put_beside("hidden_items", conversation_id, wanted)
        done = set() if is_new else writer.turn_keys(conversation_id)
        keys = [row for row in tables.get("turn_keys", ()) if row["turn_key"] not in done]
        writer.put_beside("turn_keys", conversation_id, keys)

    def _put_history(self, plan: merge_plan.ImportPlan, conversation_id: int, pins: dict[int, int]) -> None:
        tables = plan.bundle.tables
        given = tables.get("context_log", [])
        ids = [row["log_id"] for row in given]
        plan.logs = dict(zip(ids, self._writer.numbers("context_log", ids), strict=True))
        plan.pins, plan.conversations = pins, self._came
        log, former = merge_plan.renumber_log(plan, given, tables.get("former_summaries", []))
        self._writer.put_beside("context_log", conversation_id, log)
        self._writer.put_beside("former_summaries", conversation_id, former)
        if not plan.keeps_numbers:  # the logs of merged conversations refer to messages that came with this one
            for source in merge_plan.merged_conversations(given) & self._emptied:
                self._writer.forget_messages(self._came[source], merge_plan.LOST_REASON)
        for table in _STATES:
            rows = tables.get(table, [])
            if table == "last_windows":
                ends = ("first_message_id", "last_message_id")
                rows = [row | {name: plan.messages.get(row[name]) for name in ends} for row in rows]
            elif table == "conversation_compaction_maintenance":
                rows = [row | {"running": 0} for row in rows]
            elif table == "transcript_epochs":  # the archive assigns its own numbers
                rows = [{name: value for name, value in row.items() if name != "epoch_id"} for row in rows]
            self._writer.put_beside(table, conversation_id, rows)


def import_redacted(
    archive: Archive,
    vault: Vault | None,
    options: TransferOptions,
    redact: CutText,
    bring: Callable[[Archive, Vault, TransferOptions], merge_plan.ImportReport],
) -> merge_plan.ImportReport:
    """Import into an archive in memory, mask what must not be kept, and import the result."""
    with TemporaryDirectory(prefix="lossless-") as folder, Archive.open(":memory:") as staged:
        files = Vault(Path(folder))
        first = bring(staged, files, replace(options, dry_run=False, progress=None))
        tools = _forget_tools(staged, files, datetime.now(UTC))
        unmasked = run_forget(tools, ForgetRequest(rounds=(redact,))).left
        with staged.reading():
            reader = BundleReader(staged.database)
            merger = Merger(archive, PayloadCopier(vault, (Path(folder),)), options)
            for conversation in reader.conversations():
                merger.add(reader.bundle(conversation))
            merger.finish(reader.pruned())
    merger.report.warnings += [*first.warnings, *unmasked]
    merger.report.events_dropped = first.events_dropped
    return merger.report

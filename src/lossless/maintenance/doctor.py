"""The doctor: finds everything that can be wrong with an archive in seconds, each with a remedy. Read-only."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import __version__
from lossless.errors import BadInput, LosslessError
from lossless.files.vault import find_damage
from lossless.maintenance import repair
from lossless.maintenance.prune import files_of_other_archives
from lossless.maintenance.repair import find_broken, is_stuck
from lossless.maintenance.surgery import merge
from lossless.model.records import IngestHealth
from lossless.store.database import PASSAGE_BASE, group_rows
from lossless.store.maintenance.surgery import COUNT_RULES
from lossless.store.migrate import SCHEMA_VERSION, missing_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.compaction.summariser import Summariser
    from lossless.files.vault import OrphanFile, Vault
    from lossless.store.archive import Archive
    from lossless.store.maintenance.integrity import VerificationProblem, VerifyReads

Severity: TypeAlias = Literal["problem", "warning", "note"]
MAX_NAMED_IDS = 20


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that the user should know.

    Problem: something is damaged or lost, as `lcm verify` proves. Warning: all messages are there, but the archive does
    not work as it should. Note: information only.
    """

    kind: str
    severity: Severity
    message: str
    #: The remedy, as a command if there is one.
    remedy: str = ""
    conversation_id: int | None = None
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(self.ids[:MAX_NAMED_IDS]))


#: Derived values are rebuilt from rows.
_REBUILD = "lcm doctor rebuild --apply"
_REINDEX = "lcm doctor reindex --apply"
_REINDEX_ALL = "lcm doctor reindex --all --apply"
_ANEW = "it contains no messages, and the next run recreates it"
#: Text is lost or changed and cannot be derived: restore it from a copy.
_RESTORE = "lcm backups, then lcm restore BACKUP (lcm verify names every row)"
#: Rules of `lcm verify` that have their own finding here.
_REPORTED_ELSEWHERE = frozenset(
    {"summaries.sources", "message_index.rows", "summary_index.rows", "focus_brief_sources.rows"}
)
#: Remedies for rows that violate a rule, by table; without one, text may be affected.
_REMEDIES = {
    **dict.fromkeys(("context_items", "ingest_state", "summaries", "summary_messages", "summary_parents"), _REBUILD),
    **dict.fromkeys(("message_passages", "message_index", "summary_index", "summary_extras", "row_digests"), _REINDEX),
    **dict.fromkeys(
        ("leases", "spend_ledger", "breakers", "token_factors", "history_budgets", "stubborn_chunks",
         "last_windows", "expansion_grants", "turn_keys", "transcript_state", "transcript_epochs",
         "archive_state", "lcm_migration_state", "conversation_bootstrap_state", "conversation_compaction_telemetry",
         "conversation_compaction_maintenance", "prompt_evidence", "prompt_receipts", "message_vectors"),
        _ANEW),
}  # fmt: skip


def remedy_of(table: str, check: str) -> str:
    """The remedy for a table; an index is rebuilt from rows."""
    return _REINDEX_ALL if check == "index" and table != "messages" else _REMEDIES.get(table, _RESTORE)


_MODEL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Examination:
    """The state of an archive."""

    findings: tuple[DoctorFinding, ...]
    liveness: IngestHealth
    version: str
    schema: int | None
    schema_expected: int
    sqlite: str
    #: Models that were called: `name`, whether it is `ok`, `seconds`, and the `error`; empty when none is configured or
    #: that was not requested.
    models: tuple[dict[str, object], ...] = ()
    model_configured: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing is damaged or lost; there may be warnings and notes."""
        return not any(finding.severity == "problem" for finding in self.findings)

    @property
    def text(self) -> str:
        rows = [f"{finding.severity}: {finding.message}" for finding in self.findings]
        return "\n".join(rows or ["healthy"])


def examine(
    archive: Archive, now: datetime, *, vault: Vault | None = None, summariser: Summariser | None = None
) -> Examination:
    """Check for all known problems. Without a summariser no model is called."""
    checks = archive.checks
    with archive.reading():
        if damage := checks.tables():  # tables that are not declared as they should be: nothing else can be examined
            torn = [(one.table, f"the file is damaged: table {one.table!r}: {one.detail}") for one in damage]
            found = [DoctorFinding("tables", "problem", text, _RESTORE, ids=(name,)) for name, text in torn]
            return Examination(tuple(found), IngestHealth(), __version__, None, SCHEMA_VERSION, checks.sqlite())
        live, schema = archive.listings.liveness(), checks.schema()
        found = [
            *_structure(archive),
            *_broken_summaries(archive),
            *_index(checks),
            *_files(archive, vault),
            *_debts(checks, now),
            *_conversations(archive),
            *_state(checks, live, schema, now),
            *_leftovers(archive, now),
        ]
    models = () if summariser is None else _models(summariser)
    for check in models:
        if not check["ok"]:
            message = f"model {check['name']} does not answer: {check['error']}"
            found.append(DoctorFinding("model", "warning", message, "lcm model test"))
    configured = summariser is not None and summariser.has_model
    return Examination(tuple(found), live, __version__, schema, SCHEMA_VERSION, checks.sqlite(), models, configured)


def _structure(archive: Archive) -> Iterator[DoctorFinding]:
    checks = archive.checks
    for offender in checks.integrity():
        if offender.table == "database" or "index" not in offender.table:
            message = f"the file is damaged ({offender.table}): {offender.detail}"
            yield DoctorFinding("file", "problem", message, _REMEDIES.get(offender.table, _RESTORE))
    yield from _changed(archive)
    base, added = missing_tables(archive.database)  # a file of ours has all tables with text, any other may be older
    if base:
        yield DoctorFinding("tables", "problem", f"tables are missing: {', '.join(base)}", _RESTORE, ids=base)
    if added:
        message = f"tables are missing: {', '.join(added)}; an older version did not know them, or they were dropped"
        yield DoctorFinding("tables", "note", message, "any command that writes recreates them", ids=added)
    yield from _contexts(archive)
    yield from _sources(checks)
    for (table, wanted), count in Counter(checks.broken_references()).items():
        if table != "context_items":  # contexts have their own finding
            message = f"rows of {table!r} that refer to rows of {wanted!r} that do not exist: {count:,}"
            yield DoctorFinding("references", "problem", message, _REMEDIES.get(table, _RESTORE))
    yield from _rows(checks)
    if ids := [id_ for _, id_ in checks.no_texts()]:
        message = f"messages or summaries whose words are bytes, not text: {len(ids):,}, from {ids[0]} on"
        yield DoctorFinding("content", "problem", message, _RESTORE, ids=ids)


def _changed(archive: Archive) -> Iterator[DoctorFinding]:
    checks, digests = archive.checks, archive.row_digests
    if ids := list(digests.changed_messages()):
        message = f"messages that differ from what was written: {len(ids):,}, from msg#{ids[0]} on"
        yield DoctorFinding("changed", "problem", message, _RESTORE, ids=[f"msg#{id_}" for id_ in ids])
    changed: defaultdict[str, list[str]] = defaultdict(list)
    derived = {one.id for name in COUNT_RULES for one in checks.rule(name)}
    rewritten = checks.rewritten()
    for table, key, _ in digests.changed_rows():
        id_ = json.loads(key)[0]
        if table == "summaries" and id_ in rewritten:
            message = f"lossless-claw has rewritten summary {id_}"
            yield DoctorFinding("rewritten", "note", message, _REINDEX, ids=(str(id_),))
        elif table != "summaries" or id_ not in derived:
            changed[table].append(key)
    for table, keys in changed.items():
        message = f"rows of {table!r} that differ from what was written: {len(keys):,}, from {keys[0]} on"
        yield DoctorFinding("changed", "problem", message, _RESTORE, ids=keys)


def _contexts(archive: Archive) -> Iterator[DoctorFinding]:
    checks = archive.checks
    for owner, items in group_rows(checks.hanging(), lambda _, item: str(item)).items():
        more = ", which is" if len(items) == 1 else f" and {len(items) - 1:,} more items, which are"
        message = f"conversation {owner}: its context holds {items[0]}{more} not in the archive"
        is_said = checks.were_here([item for item in items if item.startswith("msg#")])
        yield DoctorFinding("context.hanging", "problem", message, _RESTORE if is_said else _REBUILD, owner, items)
    for id_, count, first_id, last_id in checks.uncovered():
        if archive.context.was_cleared(id_, checks.unreachable(id_)):
            message = f"conversation {id_}: {count:,} messages left when lossless-claw handled `/new`"
            yield DoctorFinding("context.cleared", "note", message, "any command that writes records it", id_)
            continue
        message = (
            f"conversation {id_}: messages that are neither in the context, nor below a summary in it, nor hidden: "
            f"{count:,}"
        )
        ids = tuple(dict.fromkeys((f"msg#{first_id}", f"msg#{last_id}")))
        yield DoctorFinding("context.uncovered", "problem", message, _REBUILD, id_, ids)


def _sources(checks: VerifyReads) -> Iterator[DoctorFinding]:
    if cycle := checks.cycle():
        message = f"summaries that are made of each other in a cycle: {len(cycle):,}, from {cycle[0]} on"
        yield DoctorFinding("sources.cycle", "problem", message, _RESTORE, ids=cycle)
    for owner, ids in group_rows(checks.without_sources(), str).items():
        message = f"conversation {owner}: summaries that have lost their sources: {len(ids):,}, from {ids[0]} on"
        remedy = _REBUILD if checks.is_folded(ids) else _RESTORE
        yield DoctorFinding("sources.missing", "problem", message, remedy, owner, ids)


def _rows(checks: VerifyReads) -> Iterator[DoctorFinding]:
    """What `lcm verify` finds about rows without reading their text, by table."""
    hanging = {f"{owner}:{ordinal}" for owner, ordinal, _ in checks.hanging()}
    found: defaultdict[str, list[VerificationProblem]] = defaultdict(list)
    for offender in checks.rows(without=_REPORTED_ELSEWHERE):
        if offender.table != "context_items" or offender.id not in hanging:
            found[offender.table].append(offender)
    for offender in checks.out_of_order():
        if offender.severity == "error":
            found[offender.table].append(offender)
    for table, some in found.items():
        message = f"rows of {table!r} that break a rule: {len(some):,}, from {some[0].id} on ({some[0].detail})"
        ids = [one.id for one in some]
        yield DoctorFinding("rows", "problem", message, _REMEDIES.get(table, _RESTORE), ids=ids)


def _broken_summaries(archive: Archive) -> Iterator[DoctorFinding]:
    broken = (((owner, marker), id_) for owner, id_, marker in find_broken(archive))
    for (owner, kind), ids in group_rows(broken, str).items():
        message = f"conversation {owner}: {len(ids)} broken summaries ({kind})"
        yield DoctorFinding(f"summary.{kind}", "warning", message, f"lcm summary repair -s {owner}", owner, ids)


def _index(checks: VerifyReads) -> Iterator[DoctorFinding]:
    if damaged := checks.damaged_indexes():
        message = f"the search index is damaged ({', '.join(damaged)}): it does not find what it should"
        yield DoctorFinding("index.damaged", "problem", message, _REINDEX)
    drift = checks.index_drift()
    if behind := drift.unindexed_messages + drift.unindexed_summaries:
        message = f"{behind:,} rows of other programs are not indexed yet"
        yield DoctorFinding("index.behind", "note", message, _REINDEX)
    if drift.upstream_emptied:
        message = f"lossless-claw finds nothing: its own search tables are empty ({', '.join(drift.upstream_emptied)})"
        yield DoctorFinding("index.emptied", "problem", message, _REINDEX)
    elif drift.upstream_lost:
        message = f"lossless-claw's own search tables lack {drift.upstream_lost:,} rows"
        yield DoctorFinding("index.upstream", "note", message, _REINDEX)
    rewritten = checks.rewritten().intersection(drift.stale_summaries)  # lossless-claw may do that
    if wrong := drift.wrong - len(rewritten):
        messages = (id_ for id_ in (*drift.lost, *drift.gone) if id_ < PASSAGE_BASE)
        ids = [*(f"msg#{id_}" for id_ in messages), *(id_ for id_ in drift.stale_summaries if id_ not in rewritten)]
        message = f"the search index disagrees with {wrong:,} rows"
        yield DoctorFinding("index.drift", "problem", message, _REINDEX, ids=ids)


def _files(archive: Archive, vault: Vault | None) -> Iterator[DoctorFinding]:
    places = archive.checks.file_places()
    gone = [file.id for file in places if find_damage(file.id, file.place, file.size, file.is_proven_by, vault)]
    if gone:
        message = f"the bytes of {len(gone)} files are missing or changed"
        yield DoctorFinding("files.missing", "problem", message, "restore them from a backup", ids=gone)
    orphans: list[OrphanFile] = []
    if vault is not None and vault.root.is_dir():
        with suppress(BadInput):  # unknown other archives may keep files there
            orphans = vault.orphans(archive.files.ids() | files_of_other_archives(archive, vault))
    if orphans:
        message = f"{len(orphans)} files ({sum(one.size for one in orphans)} bytes) belong to no row"
        names = [orphan.file_id for orphan in orphans]
        yield DoctorFinding("files.orphaned", "note", message, "lcm files gc --apply", ids=names)


def _debts(checks: VerifyReads, now: datetime) -> Iterator[DoctorFinding]:
    for debt in checks.debts(now):
        id_ = debt.conversation_id
        if debt.pending and not debt.active:
            message = f"conversation {id_} is closed and still has a pending compaction"
            yield DoctorFinding("debt.inactive", "warning", message, f"lcm doctor maintenance --apply {id_}", id_)
        elif is_stuck(debt):
            message = f"conversation {id_}: a compaction is marked as running, but no worker is active"
            yield DoctorFinding("debt.stuck", "warning", message, "lcm worker", id_)
        elif debt.last_failure:
            message = f"conversation {id_}: its compaction failed {debt.retry_attempts} times ({debt.last_failure})"
            yield DoctorFinding("debt.failing", "warning", message, "lcm model test", id_)
        else:
            message = f"conversation {id_} has a pending compaction"
            yield DoctorFinding("debt.pending", "note", message, "lcm worker", id_)


def _conversations(archive: Archive) -> Iterator[DoctorFinding]:
    """Split sessions, quarantined conversations, and messages that are stored twice."""
    for split in merge.find_splits(archive):
        remedy = "lcm doctor rollover-splits --apply"
        if split.review:
            remedy = f"review it, then lcm merge --session-key {split.session_key} --reviewed --apply"
        severity: Severity = "note" if split.review else "warning"
        yield DoctorFinding("split", severity, split.text, remedy, split.target_id, [*map(str, split.source_ids)])
    for found in archive.conversations.quarantined():
        if found.decision == "quarantined":
            id_ = found.conversation_id
            message = f"conversation {id_}: {found.messages} messages fit no conversation of their session, and wait"
            remedy = f"lcm quarantine accept {id_}, or lcm quarantine refuse {id_}"
            yield DoctorFinding("quarantined", "warning", message, remedy, found.beside, (str(id_),))
    for id_, count, first_id, _ in archive.checks.duplicates():
        message = f"conversation {id_}: {count} messages seem to be stored twice by an older engine"
        yield DoctorFinding("duplicates", "note", message, "", id_, (f"msg#{first_id}",))


def _state(checks: VerifyReads, live: IngestHealth, schema: int | None, now: datetime) -> Iterator[DoctorFinding]:
    """Refused and lost input, models that are not called, and the version of the file."""
    for id_, _, reason in live.blocked:
        yield DoctorFinding("blocked", "warning", f"conversation {id_} refuses input: {reason}", "", id_)
    if lacking := live.seen - live.stored - live.replayed - live.skipped:
        message = f"{lacking} messages were seen and neither stored, replayed nor skipped"
        yield DoctorFinding("lost", "problem", message)
    for key, failures, until in checks.open_breakers(now):
        when = f"{until:%Y-%m-%d %H:%M} UTC" if until else "further notice"
        message = f"{key} refused credentials {failures} times and is not called until {when}"
        yield DoctorFinding("breaker", "warning", message, "lcm model test")
    if schema is None:
        yield DoctorFinding("schema", "note", "the file was never opened for writing by lossless", "lcm worker")
    elif schema != SCHEMA_VERSION:
        message = f"the file has schema {schema}, this version writes {SCHEMA_VERSION}"
        yield DoctorFinding("schema", "note" if schema < SCHEMA_VERSION else "problem", message)


def _leftovers(archive: Archive, now: datetime) -> Iterator[DoctorFinding]:
    for filter_id, meaning in repair.CLEAN_FILTERS.items():
        if ids := repair.deletable(archive, filter_id, now):
            message = f"{len(ids)} conversations could be deleted: {meaning}"
            yield DoctorFinding(f"clean.{filter_id}", "note", message, f"lcm doctor clean --apply {filter_id}")


def _models(summariser: Summariser) -> tuple[dict[str, object], ...]:
    """Ask each configured model for one word; an unconfigured key in the environment is not used."""
    found: list[dict[str, object]] = []
    for candidate in summariser.candidates():
        answer, seconds = summariser.trial(candidate, seconds=_MODEL_SECONDS)
        error = str(answer) if isinstance(answer, LosslessError) else None
        found.append({"name": candidate.name, "ok": error is None, "seconds": seconds, "error": error})
    return tuple(found)

"""The doctor: finds everything that can be wrong with an archive in seconds, each with a remedy. Read-only."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import __version__
from lossless.errors import BadInput, LosslessError
from lossless.files.vault import find_damage
from lossless.llm.chain import Gate
from lossless.llm.completion import Prompt
from lossless.maintenance import repair
from lossless.maintenance.prune import files_of_other_archives
from lossless.maintenance.repair import find_broken, is_stuck, open_debts
from lossless.maintenance.surgery import merge
from lossless.model.records import IngestHealth
from lossless.store.maintenance.surgery import COUNT_RULES
from lossless.store.messages import PASSAGE_BASE
from lossless.store.migrate import SCHEMA_VERSION, missing_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.compaction.summariser import Summariser
    from lossless.files.vault import OrphanFile, Vault
    from lossless.store.archive import Archive
    from lossless.store.maintenance.integrity import BrokenRow, VerifyReads
    from lossless.store.rows import RowDigests

Severity: TypeAlias = Literal["problem", "warning", "note"]
#: How many ids of a finding are listed.
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
    #: The ids concerned, up to twenty.
    ids: tuple[str, ...] = ()


def _finding(
    kind: str,
    severity: Severity,
    message: str,
    remedy: str = "",
    conversation_id: int | None = None,
    ids: Sequence[str] = (),
) -> DoctorFinding:
    """A finding that lists the first of its ids."""
    return DoctorFinding(kind, severity, message, remedy, conversation_id, tuple(ids[:MAX_NAMED_IDS]))


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


def examine_structure(archive: Archive, symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    """Missing or changed tables, broken references, cycles, and rows that violate a rule."""
    checks, digests = archive.checks, archive.row_digests
    for offender in checks.integrity():
        if offender.table == "database" or "index" not in offender.table:
            message = f"the file is damaged ({offender.table}): {offender.detail}"
            yield _finding("file", "problem", message, _REMEDIES.get(offender.table, _RESTORE))
    yield from _digests(checks, digests)
    yield from _tables(archive)
    yield from _contexts(archive, symptoms)
    yield from _sources(symptoms)
    yield from _references(symptoms)
    yield from _rows(symptoms, checks)
    if ids := [id_ for _, id_ in symptoms.no_texts()]:
        message = f"messages or summaries whose words are bytes, not text: {len(ids):,}, from {ids[0]} on"
        yield _finding("content", "problem", message, _RESTORE, ids=ids)


def torn(checks: VerifyReads) -> list[DoctorFinding]:
    """Tables that are not declared as they should be: nothing else can be examined."""
    return [
        _finding(
            "tables", "problem", f"the file is damaged: table {one.table!r}: {one.detail}", _RESTORE, ids=(one.table,)
        )
        for one in checks.tables()
    ]


def _digests(checks: VerifyReads, digests: RowDigests) -> Iterator[DoctorFinding]:
    """Rows that differ from what was written."""
    if ids := list(digests.changed_messages()):
        message = f"messages that differ from what was written: {len(ids):,}, from msg#{ids[0]} on"
        yield _finding("changed", "problem", message, _RESTORE, ids=[f"msg#{id_}" for id_ in ids])
    changed: defaultdict[str, list[str]] = defaultdict(list)
    derived = {one.id for name in COUNT_RULES for one in checks.rule(name)}
    rewritten = checks.rewritten()
    for table, key, _ in digests.changed_rows():
        id_ = json.loads(key)[0]
        if table == "summaries" and id_ in rewritten:
            message = f"lossless-claw has rewritten summary {id_}"
            yield _finding("rewritten", "note", message, _REINDEX, ids=(str(id_),))
        elif table != "summaries" or id_ not in derived:
            changed[table].append(key)
    for table, keys in changed.items():
        message = f"rows of {table!r} that differ from what was written: {len(keys):,}, from {keys[0]} on"
        yield _finding("changed", "problem", message, _RESTORE, ids=keys)


def _tables(archive: Archive) -> Iterator[DoctorFinding]:
    """A file that lossless has written has all tables with text; any other may be of any version."""
    base, added = missing_tables(archive.database)
    if base:
        message = f"tables are missing: {', '.join(base)}"
        yield _finding("tables", "problem", message, _RESTORE, ids=base)
    if added:
        message = f"tables are missing: {', '.join(added)}; an older version did not know them, or they were dropped"
        yield _finding("tables", "note", message, "any command that writes recreates them", ids=added)


def _contexts(archive: Archive, symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    hanging: defaultdict[int, list[str]] = defaultdict(list)
    for owner, _, item in symptoms.hanging():
        hanging[owner].append(item)
    for owner, items in hanging.items():
        message = f"conversation {owner}: its context holds {_first(items)} not in the archive"
        is_said = symptoms.were_here([item for item in items if item.startswith("msg#")])
        yield _finding("context.hanging", "problem", message, _RESTORE if is_said else _REBUILD, owner, items)
    for some in symptoms.uncovered():
        if archive.context.was_cleared(some.conversation_id, archive.checks.unreachable(some.conversation_id)):
            message = (
                f"conversation {some.conversation_id}: {some.count:,} messages left when lossless-claw handled `/new`"
            )
            yield _finding(
                "context.cleared", "note", message, "any command that writes records it", some.conversation_id
            )
            continue
        message = (
            f"conversation {some.conversation_id}: messages that are neither in the context, nor below a summary "
            f"in it, nor hidden: {some.count:,}"
        )
        ids = tuple(dict.fromkeys((f"msg#{some.first_id}", f"msg#{some.last_id}")))
        yield _finding("context.uncovered", "problem", message, _REBUILD, some.conversation_id, ids)


def _first(items: list[str]) -> str:
    return f"{items[0]}, which is" if len(items) == 1 else f"{items[0]} and {len(items) - 1:,} more items, which are"


def _sources(symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    if cycle := symptoms.cycle():
        message = f"summaries that are made of each other in a cycle: {len(cycle):,}, from {cycle[0]} on"
        yield _finding("sources.cycle", "problem", message, _RESTORE, ids=cycle)
    bare: defaultdict[int, list[str]] = defaultdict(list)
    for owner, summary_id in symptoms.without_sources():
        bare[owner].append(summary_id)
    for owner, ids in bare.items():
        message = f"conversation {owner}: summaries that have lost their sources: {len(ids):,}, from {ids[0]} on"
        remedy = _REBUILD if symptoms.is_folded(ids) else _RESTORE
        yield _finding("sources.missing", "problem", message, remedy, owner, ids)


def _references(symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    """Rows of other tables with broken references; contexts have their own finding."""
    for (table, wanted), count in Counter(symptoms.broken_references()).items():
        if table != "context_items":
            message = f"rows of {table!r} that refer to rows of {wanted!r} that do not exist: {count:,}"
            yield _finding("references", "problem", message, _REMEDIES.get(table, _RESTORE))


def _rows(symptoms: VerifyReads, checks: VerifyReads) -> Iterator[DoctorFinding]:
    """What `lcm verify` finds about rows without reading their text, by table."""
    hanging = {f"{owner}:{ordinal}" for owner, ordinal, _ in symptoms.hanging()}
    found: defaultdict[str, list[BrokenRow]] = defaultdict(list)
    for offender in checks.rows(without=_REPORTED_ELSEWHERE):
        if offender.table != "context_items" or offender.id not in hanging:
            found[offender.table].append(offender)
    for offender, is_certain in checks.out_of_order():
        if is_certain:
            found[offender.table].append(offender)
    for table, some in found.items():
        message = f"rows of {table!r} that break a rule: {len(some):,}, from {some[0].id} on ({some[0].detail})"
        remedy = _REMEDIES.get(table, _RESTORE)
        yield _finding("rows", "problem", message, remedy, ids=[one.id for one in some])


MODEL_SECONDS = 10.0
_TEST = Prompt("Answer with one word.", "Say: ready", max_tokens=512, temperature=0.0, purpose="test", reasoning="low")


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """Whether a configured model answers; `error` says why not."""

    name: str
    ok: bool
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """The state of an archive."""

    findings: tuple[DoctorFinding, ...]
    liveness: IngestHealth
    version: str
    schema: int | None
    schema_expected: int
    sqlite: str
    #: Models that were called; empty when none is configured or that was not requested.
    models: tuple[ModelCheck, ...] = ()
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
    archive: Archive,
    now: datetime,
    *,
    vault: Vault | None = None,
    summariser: Summariser | None = None,
    conversation_id: int | None = None,
    model_seconds: float = MODEL_SECONDS,
) -> Examination:
    """Check for all known problems. Without a summariser no model is called."""
    with archive.reading():
        symptoms = archive.checks
        if damage := torn(archive.checks):
            return Examination(tuple(damage), IngestHealth(), __version__, None, SCHEMA_VERSION, symptoms.sqlite())
        live = archive.listings.liveness()
        schema = symptoms.schema()
        found = [
            *examine_structure(archive, symptoms),
            *_broken_summaries(archive, conversation_id),
            *_index(archive, symptoms),
            *_files(archive, vault),
            *_debts(archive, now),
            *_splits(archive),
            *_quarantined(archive),
            *_duplicates(symptoms),
            *_liveness(live),
            *_guards(symptoms, now),
            *_schema(schema),
            *_leftovers(archive, now),
        ]
    models = _models(summariser, model_seconds) if summariser is not None else ()
    for check in models:
        if not check.ok:
            message = f"model {check.name} does not answer: {check.error}"
            found.append(_finding("model", "warning", message, "lcm model test"))
    configured = summariser is not None and summariser.has_model
    return Examination(tuple(found), live, __version__, schema, SCHEMA_VERSION, symptoms.sqlite(), models, configured)


def _broken_summaries(archive: Archive, conversation_id: int | None) -> Iterator[DoctorFinding]:
    kinds: dict[tuple[int, str], list[str]] = {}
    for owner, id_, marker in find_broken(archive, conversation_id):
        kinds.setdefault((owner, marker), []).append(id_)
    for (owner, kind), ids in kinds.items():
        message, remedy = f"{len(ids)} broken summaries ({kind})", f"lcm doctor apply {owner} --confirm"
        yield _finding(f"summary.{kind}", "warning", f"conversation {owner}: {message}", remedy, owner, ids)


def _index(archive: Archive, symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    if damaged := symptoms.damaged_indexes():
        message = f"the search index is damaged ({', '.join(damaged)}): it does not find what it should"
        yield _finding("index.damaged", "problem", message, _REINDEX)
    drift = symptoms.index_drift()
    behind = drift.unindexed_messages + drift.unindexed_summaries
    if behind:
        yield _finding("index.behind", "note", f"{behind:,} rows of other programs are not indexed yet", _REINDEX)
    if drift.upstream_emptied:
        message = f"lossless-claw finds nothing: its own search tables are empty ({', '.join(drift.upstream_emptied)})"
        yield _finding("index.emptied", "problem", message, _REINDEX)
    elif drift.upstream_lost:
        message = f"lossless-claw's own search tables lack {drift.upstream_lost:,} rows"
        yield _finding("index.upstream", "note", message, _REINDEX)
    rewritten = archive.checks.rewritten().intersection(drift.stale_summaries)  # lossless-claw may do that
    if wrong := drift.wrong - len(rewritten):
        messages = (id_ for id_ in (*drift.lost, *drift.gone) if id_ < PASSAGE_BASE)
        ids = [*(f"msg#{id_}" for id_ in messages), *(id_ for id_ in drift.stale_summaries if id_ not in rewritten)]
        message = f"the search index disagrees with {wrong:,} rows"
        yield _finding("index.drift", "problem", message, _REINDEX, ids=ids)


def _files(archive: Archive, vault: Vault | None) -> Iterator[DoctorFinding]:
    places = archive.checks.file_places()
    gone = [file.id for file in places if find_damage(file.id, file.place, file.size, file.is_proven_by, vault)]
    if gone:
        message = f"the bytes of {len(gone)} files are missing or changed"
        yield _finding("files.missing", "problem", message, "restore them from a backup", ids=gone)
    orphans: list[OrphanFile] = []
    if vault is not None and vault.root.is_dir():
        with suppress(BadInput):  # unknown other archives may keep files there
            orphans = vault.orphans(archive.files.ids() | files_of_other_archives(archive, vault))
    if orphans:
        size = sum(orphan.size for orphan in orphans)
        message = f"{len(orphans)} files ({size} bytes) belong to no row"
        names = [orphan.file_id for orphan in orphans]
        yield _finding("files.orphaned", "note", message, "lcm files gc --apply", ids=names)


def _debts(archive: Archive, now: datetime) -> Iterator[DoctorFinding]:
    for debt in open_debts(archive, now):
        id_ = debt.conversation_id
        if debt.pending and not debt.active:
            message = f"conversation {id_} is closed and still has a pending compaction"
            yield _finding("debt.inactive", "warning", message, f"lcm doctor maintenance --apply {id_}", id_)
        elif is_stuck(debt):
            message = f"conversation {id_}: a compaction is marked as running, but no worker is active"
            yield _finding("debt.stuck", "warning", message, "lcm worker", id_)
        elif debt.last_failure:
            message = f"conversation {id_}: its compaction failed {debt.retry_attempts} times ({debt.last_failure})"
            yield _finding("debt.failing", "warning", message, "lcm model test", id_)
        else:
            yield _finding("debt.pending", "note", f"conversation {id_} has a pending compaction", "lcm worker", id_)


def _splits(archive: Archive) -> Iterator[DoctorFinding]:
    for split in merge.find_splits(archive):
        remedy = "lcm doctor rollover-splits --apply"
        if split.review:
            remedy = f"review it, then lcm merge --session-key {split.session_key} --reviewed --apply"
        ids = tuple(map(str, split.source_ids))
        yield _finding("split", "warning" if not split.review else "note", split.text, remedy, split.target_id, ids)


def _duplicates(symptoms: VerifyReads) -> Iterator[DoctorFinding]:
    for twin in symptoms.duplicates():
        message = (
            f"conversation {twin.conversation_id}: {twin.count} messages seem to be stored twice by an older engine"
        )
        yield _finding("duplicates", "note", message, "", twin.conversation_id, (f"msg#{twin.first_id}",))


def _quarantined(archive: Archive) -> Iterator[DoctorFinding]:
    for found in archive.conversations.quarantined():
        if found.decision == "quarantined":
            id_ = found.conversation_id
            message = f"conversation {id_}: {found.messages} messages fit no conversation of their session, and wait"
            remedy = f"lcm quarantine accept {id_}, or lcm quarantine refuse {id_}"
            yield _finding("quarantined", "warning", message, remedy, found.beside, (str(id_),))


def _liveness(live: IngestHealth) -> Iterator[DoctorFinding]:
    for id_, _, reason in live.blocked:
        yield _finding("blocked", "warning", f"conversation {id_} refuses input: {reason}", "", id_)
    lacking = live.seen - live.stored - live.replayed - live.skipped
    if lacking:
        yield _finding("lost", "problem", f"{lacking} messages were seen and neither stored, replayed nor skipped")


def _guards(symptoms: VerifyReads, now: datetime) -> Iterator[DoctorFinding]:
    for key, failures, until in symptoms.open_breakers(now):
        when = f"{until:%Y-%m-%d %H:%M} UTC" if until else "further notice"
        message = f"{key} refused credentials {failures} times and is not called until {when}"
        yield _finding("breaker", "warning", message, "lcm model test")


def _schema(schema: int | None) -> Iterator[DoctorFinding]:
    if schema is None:
        yield _finding("schema", "note", "the file was never opened for writing by lossless", "lcm worker")
    elif schema != SCHEMA_VERSION:
        message = f"the file has schema {schema}, this version writes {SCHEMA_VERSION}"
        yield _finding("schema", "note" if schema < SCHEMA_VERSION else "problem", message, "")


def _leftovers(archive: Archive, now: datetime) -> Iterator[DoctorFinding]:
    for filter_id, meaning in repair.CLEAN_FILTERS.items():
        if ids := repair.deletable(archive, filter_id, now):
            message = f"{len(ids)} conversations could be deleted: {meaning}"
            yield _finding(f"clean.{filter_id}", "note", message, f"lcm doctor clean --apply {filter_id}")


def _models(summariser: Summariser, seconds: float) -> tuple[ModelCheck, ...]:
    """Ask each configured model for one word; an unconfigured key in the environment is not used."""
    found = []
    for candidate in summariser.candidates():
        chain = replace(summariser.chain(Gate()), candidates=(candidate,), timeout_seconds=seconds)
        started = time.monotonic()
        try:
            chain(_TEST)
            error = None
        except LosslessError as failure:
            error = str(failure)
        found.append(ModelCheck(candidate.name, error is None, round(time.monotonic() - started, 3), error))
    return tuple(found)

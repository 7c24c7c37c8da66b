"""The doctor: finds everything that can be wrong with an archive in seconds, each with a remedy. Read-only."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless import __version__
from lossless.errors import BadInput, LosslessError
from lossless.files.vault import OrphanFile, Vault, find_damage
from lossless.maintenance import repair
from lossless.maintenance.prune import files_of_other_archives
from lossless.maintenance.repair import find_broken, is_stuck
from lossless.maintenance.surgery import merge
from lossless.model.records import IngestHealth
from lossless.store.database import PASSAGE_BASE, group_rows
from lossless.store.maintenance.surgery import COUNT_RULES
from lossless.store.migrate import SCHEMA_VERSION, missing_tables

if TYPE_CHECKING:
    from lossless.compaction.summariser import Summariser
    from lossless.store.archive import Archive
    from lossless.store.maintenance.integrity import VerificationProblem, VerifyReads

#: A problem is damage or loss, as `lcm verify` proves; with a warning every message is there, but the archive does not
#: work as it should; a note is only information.
Severity: TypeAlias = Literal["problem", "warning", "note"]
MAX_NAMED_IDS = 20


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that the user should know: damage or loss, an archive that does not work as it should, or a note."""

    kind: str
    severity: Severity
    message: str
    #: The remedy, as a command if there is one.
    remedy: str = ""
    conversation_id: int | None = None
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(self.ids[:MAX_NAMED_IDS]))


#: Rules of `lcm verify` that have their own finding here.
_ELSEWHERE = frozenset(("summaries.sources", "message_index.rows", "summary_index.rows", "focus_brief_sources.rows"))


@cache
def _declared() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("findings.toml").read_text(encoding="utf-8"))


def _finding(
    name: str, id_: int | None = None, ids: Sequence[str] = (), *, kind: str = "", remedy: str = "", **values: object
) -> DoctorFinding:
    """A declared finding, about a conversation or some rows; `values` are those that its message names."""
    severity, message, usual = _declared()["findings"][name]
    values |= {"id": id_, "count": len(ids), "first": next(iter(ids), None)}
    how = _declared()["remedies"].get(remedy or usual, usual).format(**values)
    return DoctorFinding(kind or name.partition(" ")[0], severity, message.format(**values), how, id_, ids)


def _remedy_for(table: str) -> str:
    return next((remedy for remedy, tables in _declared()["tables"].items() if table in tables), "restore")


def remedy_of(table: str, check: str) -> str:
    """The remedy for a table; an index is rebuilt from rows."""
    remedy = "reindex-all" if check == "index" and table != "messages" else _remedy_for(table)
    return str(_declared()["remedies"][remedy])


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
            found = [_finding("tables torn", ids=(one.table,), detail=one.detail) for one in damage]
            return Examination(tuple(found), IngestHealth(), __version__, None, SCHEMA_VERSION, checks.sqlite())
        live, schema = archive.listings.liveness(), checks.schema()
        found = [
            *_structure(archive),
            *_rows(archive),
            *_index(checks),
            *_files(archive, vault),
            *_debts(checks, now),
            *_conversations(archive, now),
            *_state(checks, live, schema, now),
        ]
    models = () if summariser is None else _models(summariser)
    found += [_finding("model", check=check) for check in models if not check["ok"]]
    configured = summariser is not None and summariser.has_model
    return Examination(tuple(found), live, __version__, schema, SCHEMA_VERSION, checks.sqlite(), models, configured)


def _structure(archive: Archive) -> Iterator[DoctorFinding]:
    checks = archive.checks
    for offender in checks.integrity():
        if (table := offender.table) == "database" or "index" not in table:
            yield _finding("file", remedy=_remedy_for(table), table=table, detail=offender.detail)
    yield from _changed(archive)
    base, added = missing_tables(archive.database)  # a file of ours has all tables with text, any other may be older
    if base:
        yield _finding("tables missing", ids=base, names=", ".join(base))
    if added:
        yield _finding("tables older", ids=added, names=", ".join(added))
    yield from _contexts(archive)
    for (table, wanted), rows in Counter(checks.broken_references()).items():
        if table != "context_items":  # contexts have their own finding
            yield _finding("references", remedy=_remedy_for(table), table=table, wanted=wanted, rows=rows)
    if ids := [id_ for _, id_ in checks.no_texts()]:
        yield _finding("content", ids=ids)


def _changed(archive: Archive) -> Iterator[DoctorFinding]:
    checks, digests = archive.checks, archive.row_digests
    if ids := [f"msg#{id_}" for id_ in digests.changed_messages()]:
        yield _finding("changed messages", ids=ids)
    changed: defaultdict[str, list[str]] = defaultdict(list)
    derived = {one.id for name in COUNT_RULES for one in checks.rule(name)}
    rewritten = checks.rewritten()
    for table, key, _ in digests.changed_rows():
        id_ = json.loads(key)[0]
        if table == "summaries" and id_ in rewritten:
            yield _finding("rewritten", ids=(str(id_),))
        elif table != "summaries" or id_ not in derived:
            changed[table].append(key)
    for table, keys in changed.items():
        yield _finding("changed rows", ids=keys, table=table)


def _contexts(archive: Archive) -> Iterator[DoctorFinding]:
    """Contexts without their items or messages, and summaries without their sources."""
    checks = archive.checks
    for owner, items in group_rows(checks.hanging(), lambda _, item: str(item)).items():
        more = ", which is" if len(items) == 1 else f" and {len(items) - 1:,} more items, which are"
        is_said = checks.were_here([item for item in items if item.startswith("msg#")])
        yield _finding("context.hanging", owner, items, remedy="" if is_said else "rebuild", more=more)
    for id_, messages, first_id, last_id in checks.uncovered():
        if archive.context.was_cleared(id_, checks.unreachable(id_)):
            yield _finding("context.cleared", id_, messages=messages)
        else:
            ids = tuple(dict.fromkeys((f"msg#{first_id}", f"msg#{last_id}")))
            yield _finding("context.uncovered", id_, ids, messages=messages)
    if cycle := checks.cycle():
        yield _finding("sources.cycle", ids=cycle)
    for owner, lost in group_rows(checks.without_sources(), str).items():
        yield _finding("sources.missing", owner, lost, remedy="rebuild" if checks.is_folded(lost) else "")


def _rows(archive: Archive) -> Iterator[DoctorFinding]:
    """What `lcm verify` finds about rows without reading their text, by table; and broken summaries."""
    checks = archive.checks
    hanging = {f"{owner}:{ordinal}" for owner, ordinal, _ in checks.hanging()}
    found: defaultdict[str, list[VerificationProblem]] = defaultdict(list)
    for offender in checks.rows(without=_ELSEWHERE):
        if offender.table != "context_items" or offender.id not in hanging:
            found[offender.table].append(offender)
    for offender in checks.out_of_order():
        if offender.severity == "error":
            found[offender.table].append(offender)
    for table, some in found.items():
        ids = [one.id for one in some]
        yield _finding("rows", ids=ids, remedy=_remedy_for(table), table=table, detail=some[0].detail)
    broken = (((owner, marker), id_) for owner, id_, marker in find_broken(archive))
    for (owner, marker), ids in group_rows(broken, str).items():
        yield _finding("summary", owner, ids, kind=f"summary.{marker}", marker=marker)


def _index(checks: VerifyReads) -> Iterator[DoctorFinding]:
    if damaged := checks.damaged_indexes():
        yield _finding("index.damaged", names=", ".join(damaged))
    drift = checks.index_drift()
    if behind := drift.unindexed_messages + drift.unindexed_summaries:
        yield _finding("index.behind", behind=behind)
    if drift.upstream_emptied:
        yield _finding("index.emptied", names=", ".join(drift.upstream_emptied))
    elif drift.upstream_lost:
        yield _finding("index.upstream", lost=drift.upstream_lost)
    rewritten = checks.rewritten().intersection(drift.stale_summaries)  # lossless-claw may do that
    if wrong := drift.wrong - len(rewritten):
        messages = (id_ for id_ in (*drift.lost, *drift.gone) if id_ < PASSAGE_BASE)
        ids = [*(f"msg#{id_}" for id_ in messages), *(id_ for id_ in drift.stale_summaries if id_ not in rewritten)]
        yield _finding("index.drift", ids=ids, wrong=wrong)


def _files(archive: Archive, vault: Vault | None) -> Iterator[DoctorFinding]:
    places = archive.checks.file_places()
    if gone := [file.id for file in places if find_damage(file.id, file.place, file.size, file.is_proven_by, vault)]:
        yield _finding("files.missing", ids=gone)
    orphans: list[OrphanFile] = []
    if vault is not None and vault.root.is_dir():
        with suppress(BadInput):  # unknown other archives may keep files there
            orphans = vault.orphans(archive.files.ids() | files_of_other_archives(archive, vault))
    if orphans:
        names, size = [orphan.file_id for orphan in orphans], sum(one.size for one in orphans)
        yield _finding("files.orphaned", ids=names, bytes=size)


def _debts(checks: VerifyReads, now: datetime) -> Iterator[DoctorFinding]:
    for debt in checks.debts(now):
        if debt.pending and not debt.active:
            state = "inactive"
        elif is_stuck(debt):
            state = "stuck"
        else:
            state = "failing" if debt.last_failure else "pending"
        yield _finding(f"debt.{state}", debt.conversation_id, debt=debt)


def _conversations(archive: Archive, now: datetime) -> Iterator[DoctorFinding]:
    """Split sessions, quarantined conversations, messages that are stored twice, and what could be deleted."""
    for split in merge.find_splits(archive):
        name = "split doubtful" if split.review else "split certain"
        yield _finding(name, split.target_id, [*map(str, split.source_ids)], split=split)
    for found in archive.conversations.quarantined():
        if found.decision == "quarantined":
            yield _finding("quarantined", found.beside, (str(found.conversation_id),), messages=found.messages)
    for id_, messages, first_id, _ in archive.checks.duplicates():
        yield _finding("duplicates", id_, (f"msg#{first_id}",), messages=messages)
    for filter_id, meaning in repair.CLEAN_FILTERS.items():
        if ids := repair.deletable(archive, filter_id, now):
            kind = f"clean.{filter_id}"
            yield _finding("clean", kind=kind, conversations=len(ids), meaning=meaning, filter=filter_id)


def _state(checks: VerifyReads, live: IngestHealth, schema: int | None, now: datetime) -> Iterator[DoctorFinding]:
    """Refused and lost input, models that are not called, and the version of the file."""
    for id_, _, reason in live.blocked:
        yield _finding("blocked", id_, reason=reason)
    if lacking := live.seen - live.stored - live.replayed - live.skipped:
        yield _finding("lost", messages=lacking)
    for key, failures, until in checks.open_breakers(now):
        when = f"{until:%Y-%m-%d %H:%M} UTC" if until else "further notice"
        yield _finding("breaker", key=key, failures=failures, until=when)
    if schema is None:
        yield _finding("schema none")
    elif schema != SCHEMA_VERSION:
        name = "schema older" if schema < SCHEMA_VERSION else "schema newer"
        yield _finding(name, schema=schema, expected=SCHEMA_VERSION)


def _models(summariser: Summariser) -> tuple[dict[str, object], ...]:
    """Ask each configured model for one word; an unconfigured key in the environment is not used."""
    found: list[dict[str, object]] = []
    for candidate in summariser.candidates():
        answer, seconds = summariser.trial(candidate, seconds=_MODEL_SECONDS)
        error = str(answer) if isinstance(answer, LosslessError) else None
        found.append({"name": candidate.name, "ok": error is None, "seconds": seconds, "error": error})
    return tuple(found)

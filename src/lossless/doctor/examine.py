"""The examination: everything that can be wrong with an archive, found in seconds, each with what helps. Reads only."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless import __version__
from lossless.doctor import clean, structure
from lossless.doctor.finding import NAMED, Finding
from lossless.doctor.maintenance import debts, is_stuck
from lossless.doctor.repair import broken
from lossless.errors import BadInput, LosslessError
from lossless.files.place import damage_of
from lossless.ingest.shared_payloads import files_of_others
from lossless.llm.base import Prompt
from lossless.llm.chain import OpenGate
from lossless.store.care import Liveness
from lossless.store.findable import Findable
from lossless.store.index import PASSAGE_BASE
from lossless.store.migrate import SCHEMA_VERSION
from lossless.store.symptoms import Symptoms
from lossless.surgery import merge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lossless.compaction.summariser import Summariser
    from lossless.files.vault import Orphan, Vault
    from lossless.store.archive import Archive

MODEL_SECONDS = 10.0
_REINDEX = "lcm doctor reindex --apply"
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

    findings: tuple[Finding, ...]
    liveness: Liveness
    version: str
    schema: int | None
    schema_expected: int
    sqlite: str
    #: Models that were asked; empty when none is configured or asking was not wanted.
    models: tuple[ModelCheck, ...] = ()
    model_configured: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing is damaged or lost; warnings and notes there may be."""
        return not any(finding.severity == "problem" for finding in self.findings)

    @property
    def text(self) -> str:
        """The findings for a person's eyes."""
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
    """Look for everything that is known to go wrong. Without a summariser no model is asked."""
    with archive.reading():
        symptoms = Symptoms(archive.database)
        if torn := structure.torn(archive.checks):
            return Examination(tuple(torn), Liveness.unknown(), __version__, None, SCHEMA_VERSION, symptoms.sqlite())
        live = archive.care.liveness()
        schema = symptoms.schema()
        found = [
            *structure.examine(archive, symptoms),
            *_broken(archive, conversation_id),
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
    found += [_silent(check) for check in models if not check.ok]
    configured = summariser is not None and summariser.has_model
    return Examination(tuple(found), live, __version__, schema, SCHEMA_VERSION, symptoms.sqlite(), models, configured)


def _broken(archive: Archive, conversation_id: int | None) -> Iterator[Finding]:
    kinds: dict[tuple[int, str], list[str]] = {}
    for one in broken(archive, conversation_id):
        kinds.setdefault((one.conversation_id, one.marker), []).append(one.summary_id)
    for (owner, marker), ids in kinds.items():
        yield Finding(
            f"summary.{marker}",
            "warning",
            f"conversation {owner}: {len(ids)} broken summaries ({marker})",
            f"lcm doctor apply {owner} --confirm",
            owner,
            tuple(ids[:NAMED]),
        )


def _index(archive: Archive, symptoms: Symptoms) -> Iterator[Finding]:
    if damaged := Findable(archive.database).damaged():
        message = f"the search index is damaged ({', '.join(damaged)}): it does not find what it should"
        yield Finding("index.damaged", "problem", message, _REINDEX)
    drift = symptoms.index_drift()
    behind = drift.unindexed_messages + drift.unindexed_summaries
    if behind:
        yield Finding("index.behind", "note", f"{behind:,} rows of other programs are not indexed yet", _REINDEX)
    if drift.upstream_emptied:
        message = f"lossless-claw finds nothing: its own search tables are empty ({', '.join(drift.upstream_emptied)})"
        yield Finding("index.emptied", "problem", message, _REINDEX)
    elif drift.upstream_lost:
        message = f"lossless-claw's own search tables lack {drift.upstream_lost:,} rows"
        yield Finding("index.upstream", "note", message, _REINDEX)
    rewritten = archive.checks.rewritten().intersection(drift.stale_summaries)  # which is lossless-claw's right
    if wrong := drift.wrong - len(rewritten):
        messages = (id_ for id_ in (*drift.lost, *drift.gone) if id_ < PASSAGE_BASE)
        ids = [*(f"msg#{id_}" for id_ in messages), *(id_ for id_ in drift.stale_summaries if id_ not in rewritten)]
        message = f"the search index disagrees with {wrong:,} rows"
        yield Finding("index.drift", "problem", message, _REINDEX, ids=tuple(ids[:NAMED]))


def _files(archive: Archive, vault: Vault | None) -> Iterator[Finding]:
    gone = [file.id for file in archive.checks.file_places() if damage_of(file, vault)]
    if gone:
        message = f"the bytes of {len(gone)} files are missing or not those that were stored"
        yield Finding("files.missing", "problem", message, "restore them from a backup", ids=tuple(gone[:NAMED]))
    orphans: list[Orphan] = []
    if vault is not None and vault.root.is_dir():
        with suppress(BadInput):  # others may keep files there, and nobody knows who
            orphans = vault.orphans(archive.files.ids() | files_of_others(archive, vault))
    if orphans:
        size = sum(orphan.size for orphan in orphans)
        message = f"{len(orphans)} files ({size} bytes) belong to no row"
        names = tuple(orphan.file_id for orphan in orphans[:NAMED])
        yield Finding("files.orphaned", "note", message, "lcm files gc --apply", ids=names)


def _debts(archive: Archive, now: datetime) -> Iterator[Finding]:
    for debt in debts(archive, now):
        id_ = debt.conversation_id
        if debt.pending and not debt.active:
            message = f"conversation {id_} is closed and still owes a sweep"
            yield Finding("debt.inactive", "warning", message, f"lcm doctor maintenance --apply {id_}", id_)
        elif is_stuck(debt):
            message = f"conversation {id_}: a sweep is said to run, but nobody is at work"
            yield Finding("debt.stuck", "warning", message, "lcm worker", id_)
        elif debt.last_failure:
            message = f"conversation {id_}: its sweep failed {debt.retry_attempts} times ({debt.last_failure})"
            yield Finding("debt.failing", "warning", message, "lcm model test", id_)
        else:
            yield Finding("debt.pending", "note", f"conversation {id_} owes a sweep", "lcm worker", id_)


def _splits(archive: Archive) -> Iterator[Finding]:
    for split in merge.splits(archive):
        remedy = "lcm doctor rollover-splits --apply"
        if split.review:
            remedy = f"look at it, then lcm merge --session-key {split.session_key} --reviewed --apply"
        ids = tuple(map(str, split.source_ids))
        yield Finding("split", "warning" if not split.review else "note", split.text, remedy, split.target_id, ids)


def _duplicates(symptoms: Symptoms) -> Iterator[Finding]:
    for twin in symptoms.duplicates():
        message = (
            f"conversation {twin.conversation_id}: {twin.count} messages seem to be stored twice by an older engine"
        )
        yield Finding("duplicates", "note", message, "", twin.conversation_id, (f"msg#{twin.first_id}",))


def _quarantined(archive: Archive) -> Iterator[Finding]:
    for found in archive.conversations.quarantined():
        if found.decision == "quarantined":
            id_ = found.conversation_id
            message = f"conversation {id_}: {found.messages} messages fit no conversation of their session, and wait"
            remedy = f"lcm quarantine accept {id_}, or lcm quarantine refuse {id_}"
            yield Finding("quarantined", "warning", message, remedy, found.beside, (str(id_),))


def _liveness(live: Liveness) -> Iterator[Finding]:
    for id_, _, reason in live.blocked:
        yield Finding("blocked", "warning", f"conversation {id_} refuses input: {reason}", "", id_)
    lacking = live.seen - live.stored - live.replayed - live.skipped
    if lacking:
        yield Finding("lost", "problem", f"{lacking} messages were seen and neither stored, replayed nor skipped")


def _guards(symptoms: Symptoms, now: datetime) -> Iterator[Finding]:
    for key, failures, until in symptoms.open_breakers(now):
        when = f"{until:%Y-%m-%d %H:%M} UTC" if until else "further notice"
        message = f"{key} refused credentials {failures} times and is not asked until {when}"
        yield Finding("breaker", "warning", message, "lcm model test")


def _schema(schema: int | None) -> Iterator[Finding]:
    if schema is None:
        yield Finding("schema", "note", "the file was never opened for writing by lossless", "lcm worker")
    elif schema != SCHEMA_VERSION:
        message = f"the file has schema {schema}, this version writes {SCHEMA_VERSION}"
        yield Finding("schema", "note" if schema < SCHEMA_VERSION else "problem", message, "")


def _leftovers(archive: Archive, now: datetime) -> Iterator[Finding]:
    for filter_id, meaning in clean.FILTERS.items():
        if ids := clean.deletable(archive, filter_id, now):
            message = f"{len(ids)} conversations could be deleted: {meaning}"
            yield Finding(f"clean.{filter_id}", "note", message, f"lcm doctor clean --apply {filter_id}")


def _models(summariser: Summariser, seconds: float) -> tuple[ModelCheck, ...]:
    """Ask each configured model for one word; a key that lies about is not asked."""
    found = []
    for candidate in summariser.candidates():
        chain = replace(summariser.chain(OpenGate()), candidates=(candidate,), timeout_seconds=seconds)
        started = time.monotonic()
        try:
            chain(_TEST)
            error = None
        except LosslessError as failure:
            error = str(failure)
        found.append(ModelCheck(candidate.name, error is None, round(time.monotonic() - started, 3), error))
    return tuple(found)


def _silent(check: ModelCheck) -> Finding:
    return Finding("model", "warning", f"model {check.name} does not answer: {check.error}", "lcm model test")

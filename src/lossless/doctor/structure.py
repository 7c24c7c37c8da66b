"""Whether the archive holds together: tables, contexts, sources. Cheap, as it reads ids and never words."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from lossless.doctor.finding import NAMED, Finding
from lossless.store.migrate import missing_tables
from lossless.store.rebuilding import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.store.archive import Archive
    from lossless.store.checks import Checks, Offender
    from lossless.store.row_digests import RowDigests
    from lossless.store.symptoms import Symptoms

#: What rows tell is made again.
_REBUILD = "lcm doctor rebuild --apply"
_REINDEX = "lcm doctor reindex --apply"
_ANEW_INDEX = "lcm doctor reindex --all --apply"
_ANEW = "nothing that was said is in it, and the next run writes it anew"
#: Words are gone or changed, and nobody can say what they were: a copy can.
_RESTORE = "lcm backups, then lcm restore BACKUP (lcm verify names every row)"


#: Rules of `lcm verify` about what has a finding of its own here.
_TOLD = frozenset({"summaries.sources", "message_index.rows", "summary_index.rows", "focus_brief_sources.rows"})


#: What helps against rows that break a rule, by table; where nothing is named, words may be concerned.
_HELPS = {
    **dict.fromkeys(("context_items", "ingest_state", "summaries", "summary_messages", "summary_parents"), _REBUILD),
    **dict.fromkeys(("message_passages", "message_index", "summary_index", "summary_extras", "row_digests"), _REINDEX),
    **dict.fromkeys(
        ("leases", "spend_ledger", "breakers", "token_factors", "history_budgets", "stubborn_chunks",
         "last_windows", "expansion_grants", "turn_keys", "transcript_state", "transcript_epochs",
         "archive_state", "lcm_migration_state", "conversation_bootstrap_state", "conversation_compaction_telemetry",
         "conversation_compaction_maintenance"),
        _ANEW),
}  # fmt: skip


def remedy_of(table: str, check: str) -> str:
    """What helps against what is wrong with a table; an index is made of rows."""
    return _ANEW_INDEX if check == "index" and table != "messages" else _HELPS.get(table, _RESTORE)


def examine(archive: Archive, symptoms: Symptoms) -> Iterator[Finding]:
    """What is missing, changed, hangs in the air or goes round in a circle, and rows that break a rule."""
    checks, digests = archive.checks, archive.row_digests
    for offender in checks.integrity():
        if offender.table == "database" or "index" not in offender.table:
            message = f"the file is damaged ({offender.table}): {offender.detail}"
            yield Finding("file", "problem", message, _HELPS.get(offender.table, _RESTORE))
    yield from _digests(checks, digests)
    yield from _tables(archive)
    yield from _contexts(archive, symptoms)
    yield from _sources(symptoms)
    yield from _references(symptoms)
    yield from _rows(symptoms, checks)
    if ids := [id_ for _, id_ in symptoms.no_texts()]:
        message = f"messages or summaries whose words are bytes, not text: {len(ids):,}, from {ids[0]} on"
        yield Finding("content", "problem", message, _RESTORE, ids=tuple(ids[:NAMED]))


def torn(checks: Checks) -> list[Finding]:
    """Tables that are not as they were made: nothing else can be examined."""
    return [
        Finding(
            "tables", "problem", f"the file is damaged: table {one.table!r}: {one.detail}", _RESTORE, ids=(one.table,)
        )
        for one in checks.tables()
    ]


def _digests(checks: Checks, digests: RowDigests) -> Iterator[Finding]:
    """Rows that are not as they were written."""
    if ids := list(digests.changed_messages()):
        message = f"messages that are not as they were written: {len(ids):,}, from msg#{ids[0]} on"
        yield Finding("changed", "problem", message, _RESTORE, ids=tuple(f"msg#{id_}" for id_ in ids[:NAMED]))
    changed: defaultdict[str, list[str]] = defaultdict(list)
    derived = {one.id for name in COUNTED for one in checks.rule(name)}
    rewritten = checks.rewritten()
    for table, key, _ in digests.changed_rows():
        id_ = json.loads(key)[0]
        if table == "summaries" and id_ in rewritten:
            message = f"lossless-claw has written summary {id_} anew"
            yield Finding("rewritten", "note", message, _REINDEX, ids=(str(id_),))
        elif table != "summaries" or id_ not in derived:
            changed[table].append(key)
    for table, keys in changed.items():
        message = f"rows of {table!r} that are not as they were written: {len(keys):,}, from {keys[0]} on"
        yield Finding("changed", "problem", message, _RESTORE, ids=tuple(keys[:NAMED]))


def _tables(archive: Archive) -> Iterator[Finding]:
    """A file that lossless has written has all tables with words; one that it has not may be of any age."""
    base, added = missing_tables(archive.database)
    if base:
        message = f"tables are missing: {', '.join(base)}"
        yield Finding("tables", "problem", message, _RESTORE, ids=tuple(base))
    if added:
        message = f"tables are missing: {', '.join(added)}; an older version did not know them, or they were dropped"
        yield Finding("tables", "note", message, "any command that writes makes them anew", ids=tuple(added))


def _contexts(archive: Archive, symptoms: Symptoms) -> Iterator[Finding]:
    hanging: defaultdict[int, list[str]] = defaultdict(list)
    for place in symptoms.hanging():
        hanging[place.conversation_id].append(place.item)
    for owner, items in hanging.items():
        message = f"conversation {owner}: its context holds {_first(items)} not in the archive"
        is_said = symptoms.were_here([item for item in items if item.startswith("msg#")])
        yield Finding(
            "context.hanging", "problem", message, _RESTORE if is_said else _REBUILD, owner, tuple(items[:NAMED])
        )
    for some in symptoms.uncovered():
        if archive.cleared.explains(some.conversation_id, archive.checks.unreachable(some.conversation_id)):
            message = (
                f"conversation {some.conversation_id}: {some.count:,} messages left when lossless-claw handled `/new`"
            )
            yield Finding(
                "context.cleared", "note", message, "any command that writes records it", some.conversation_id
            )
            continue
        message = (
            f"conversation {some.conversation_id}: messages that are neither in the context, nor below a summary "
            f"in it, nor hidden: {some.count:,}"
        )
        ids = tuple(dict.fromkeys((f"msg#{some.first_id}", f"msg#{some.last_id}")))
        yield Finding("context.uncovered", "problem", message, _REBUILD, some.conversation_id, ids)


def _first(items: list[str]) -> str:
    return f"{items[0]}, which is" if len(items) == 1 else f"{items[0]} and {len(items) - 1:,} more items, which are"


def _sources(symptoms: Symptoms) -> Iterator[Finding]:
    if cycle := symptoms.cycle():
        message = f"summaries that are made of each other in a circle: {len(cycle):,}, from {cycle[0]} on"
        yield Finding("sources.cycle", "problem", message, _RESTORE, ids=tuple(cycle[:NAMED]))
    bare: defaultdict[int, list[str]] = defaultdict(list)
    for owner, summary_id in symptoms.without_sources():
        bare[owner].append(summary_id)
    for owner, ids in bare.items():
        message = f"conversation {owner}: summaries that have lost their sources: {len(ids):,}, from {ids[0]} on"
        remedy = _REBUILD if symptoms.is_folded(ids) else _RESTORE
        yield Finding("sources.missing", "problem", message, remedy, owner, tuple(ids[:NAMED]))


def _references(symptoms: Symptoms) -> Iterator[Finding]:
    """Rows of other tables that refer to what is not there; contexts have a finding of their own."""
    for (table, wanted), count in Counter(symptoms.broken_references()).items():
        if table != "context_items":
            message = f"rows of {table!r} that refer to rows of {wanted!r} which are not there: {count:,}"
            yield Finding("references", "problem", message, _HELPS.get(table, _RESTORE))


def _rows(symptoms: Symptoms, checks: Checks) -> Iterator[Finding]:
    """What `lcm verify` says about rows without reading their words, by table."""
    hanging = {f"{place.conversation_id}:{place.ordinal}" for place in symptoms.hanging()}
    found: defaultdict[str, list[Offender]] = defaultdict(list)
    for offender in checks.rows(without=_TOLD):
        if offender.table != "context_items" or offender.id not in hanging:
            found[offender.table].append(offender)
    for offender, is_certain in checks.out_of_order():
        if is_certain:
            found[offender.table].append(offender)
    for table, some in found.items():
        message = f"rows of {table!r} that break a rule: {len(some):,}, from {some[0].id} on ({some[0].detail})"
        remedy = _HELPS.get(table, _RESTORE)
        yield Finding("rows", "problem", message, remedy, ids=tuple(one.id for one in some[:NAMED]))

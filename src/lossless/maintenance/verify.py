"""Verifies an archive: everything that was stored is there, findable and reachable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from lossless import formats
from lossless.errors import ArchiveCorrupt, ArchiveError, BadInput, NotFound
from lossless.files.intercept import restore_message
from lossless.files.vault import Vault, find_damage, payload_reader
from lossless.model.identity import fingerprint, identity_hash, words_digest
from lossless.model.js_json import storable_text
from lossless.model.messages import Json, Message, StoredMessage, ToolResult
from lossless.store import migrate
from lossless.store.maintenance.deletion import ArchiveRemover
from lossless.store.maintenance.integrity import DerivedValues, Severity, VerificationProblem, WordTotals
from lossless.store.messages import index_digest, indexed_text

if TYPE_CHECKING:
    from lossless.store.archive import Archive
    from lossless.store.versions import Version

_PAGE = 500
_LATER = "that is recorded when the archive is opened for writing"
_ANEW = "`lcm doctor reindex --apply`"
_NOT_INDEXED = f"not indexed yet; {_ANEW} does it"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result: `ok` when there is no error; warnings concern rows that other programs wrote."""

    problems: tuple[VerificationProblem, ...]
    messages: int
    summaries: int

    @property
    def ok(self) -> bool:
        return not any(problem.severity == "error" for problem in self.problems)


def verify_archive(
    archive: Archive, progress: Callable[[int], None] | None = None, vault: Vault | None = None
) -> Verification:
    """Check every row of an archive, and originals with the vault; read-only, in bounded memory."""
    problems = list(_found("integrity", "database", archive.checks.integrity()))
    if any(problem.table == "database" for problem in problems):
        return Verification(tuple(problems), 0, 0)
    checked = 0

    def count(rows: int) -> None:
        nonlocal checked
        checked += rows
        if progress:
            progress(rows)

    with archive.reading():  # others may write meanwhile: all checks use one snapshot
        if torn := archive.checks.tables():  # every other check reads these tables
            return Verification((*problems, *_found("schema", "database", torn)), 0, 0)
        for check, table, found in (
            ("rows", "database", archive.checks.rows()),
            ("order", "context_items", archive.checks.out_of_order()),
            ("digests", "database", _digests(archive)),
            ("messages", "messages", _messages_and_summaries(archive, vault, count)),
            ("versions", "message_versions", _versions(archive, vault)),
            ("schema", "database", _schema(archive)),
            ("forgetting", "archive_state", _half_forgotten(archive)),
            ("index", "messages_fts", _upstream_index(archive)),
            ("index", "database", _damaged_indexes(archive)),
            ("shrink", "summaries", _shrinking(archive)),
            ("reachable", "context_items", _reachability(archive)),
            ("files", "large_files", _files(archive, vault)),
        ):
            problems.extend(_found(check, table, found))
        return Verification(tuple(problems), checked, archive.listings.counts().summaries)


def _messages_and_summaries(
    archive: Archive, vault: Vault | None, count: Callable[[int], None]
) -> Iterator[VerificationProblem]:
    """Checks messages, summaries and their index in batches; one warning for all unindexed rows."""
    messages, summaries = WordTotals(), WordTotals()
    wrong: set[str] = set()
    unindexed: dict[str, VerificationProblem] = {}
    counts: Counter[str] = Counter()

    def in_batches() -> Iterator[VerificationProblem]:
        for page in archive.checks.derived():
            yield from _check_messages(archive, page, vault, messages)
            count(len(page))
        for one in _found("index", "summary_index", archive.checks.summary_digests(summaries)):
            if one.table == "summary_extras":  # rows that are not indexed yet can be caught up
                yield replace(one, detail=_NOT_INDEXED, severity="warning")
            else:
                yield _rewritten(archive, one, one.id) if one.table == "summaries" else one

    for problem in in_batches():
        if (problem.check, problem.severity) == ("index", "warning"):
            unindexed.setdefault(problem.table, problem)
            counts[problem.table] += 1
        else:
            wrong.add(problem.table)
            yield problem
    wrong |= unindexed.keys() & {"summaries"}  # rewritten by another program: the index still has the old text
    for table, first in unindexed.items():
        more = counts[table] - 1
        yield replace(first, id=f"{first.id} and {more:,} more") if more else first
    for table, rows, totals in (
        ("message_index", {"messages", "message_passages", "message_extras"}, messages),
        ("summary_index", {"summaries"}, summaries),
    ):
        if not wrong & {table, *rows}:  # known problems make the totals wrong, too
            yield from _found("index", table, archive.checks.index_totals(table, totals))


def _problem(place: str, id_: object, detail: str, severity: Severity = "error") -> VerificationProblem:
    """A problem in a place: its check and its table."""
    check, _, table = place.partition(" ")
    return VerificationProblem(check, table, str(id_), detail, severity)


def _digests(archive: Archive) -> Iterator[VerificationProblem]:
    for id_ in archive.row_digests.changed_messages():
        yield _problem("digests messages", id_, "the message, or one of its parts, differs from what was written")
    for table, key, detail in archive.row_digests.changed_rows():
        problem = VerificationProblem("digests", table, key, detail)
        yield _rewritten(archive, problem, json.loads(key)[0]) if table == "summaries" else problem


def _rewritten(archive: Archive, problem: VerificationProblem, summary_id: str) -> VerificationProblem:
    """A changed summary is no damage when lossless-claw's doctor rewrote it."""
    if summary_id not in archive.checks.rewritten():
        return problem
    detail = "lossless-claw has rewritten it; `lcm doctor reindex --apply` records that"
    return replace(problem, detail=detail, severity="warning")


def _schema(archive: Archive) -> Iterator[VerificationProblem]:
    for table in migrate.missing_tables(archive.database)[0]:
        yield _problem(f"schema {table}", "", "the table is missing")
    if reason := migrate.why_refused(archive.database):
        yield _problem("schema lcm_migration_state", "", f"{reason}: it can be read but not written")


def _half_forgotten(archive: Archive) -> Iterator[VerificationProblem]:
    """An interrupted forget: rows have lost their text, but payloads and free pages may still have it."""
    if (paths := ArchiveRemover(archive).pending) is not None:
        files = f" and payloads ({len(paths):,})" if paths else ""
        left = f"a forget was interrupted: free pages{files} may contain its words"
        detail = f"{left}; any `lcm forget --apply` completes it"
        yield _problem("forgetting archive_state", "forgetting", detail, "warning")


def _check_messages(
    archive: Archive, page: list[DerivedValues], vault: Vault | None, totals: WordTotals
) -> Iterator[VerificationProblem]:
    stored: dict[int, StoredMessage] = {}
    try:
        stored = {message.id: message for message in archive.messages.many([derived.message_id for derived in page])}
    except ArchiveCorrupt:  # read them one by one: each unreadable message is a problem
        for derived in page:
            try:
                stored[derived.message_id] = archive.messages.get(derived.message_id)
            except ArchiveCorrupt as error:
                yield _problem("original message_extras", derived.message_id, str(error))
    recipes = archive.context.recipes(list(stored))
    for derived in page:
        message = stored.get(derived.message_id)
        if message is not None and derived.message_id in recipes:
            yield from _check_intercepted(archive, message, recipes[message.id], derived, vault)
        elif message is not None:
            yield from _check_message(message, derived)
    texts = [(derived, stored[derived.message_id].message) for derived in page if derived.message_id in stored]
    indexed = [(derived, indexed_text(message.content, message)) for derived, message in texts]
    current = [(derived, text) for derived, text in indexed if derived.indexed == index_digest(text)]
    yield from _found("index", "message_index", archive.checks.index_rows(current, totals))


def _found(check: str, table: str, found: Iterable[VerificationProblem]) -> Iterator[VerificationProblem]:
    """The results of a check until rows become unreadable: the other checks continue."""
    try:
        yield from (one if one.check else replace(one, check=check) for one in found)
    except ArchiveError as error:
        yield VerificationProblem(check, table, "", str(error))


def _check_message(stored: StoredMessage, derived: DerivedValues) -> Iterator[VerificationProblem]:
    id_, message = stored.id, stored.message
    if derived.identity and derived.identity != identity_hash(message.role, message.content):
        yield _problem("identity messages", id_, "its identity does not match its text", "warning")
    is_indexed = derived.fingerprint is not None and derived.digest is not None
    if not _has_same_output(message):
        severity: Severity = "error" if is_indexed else "warning"
        yield _problem("parts message_parts", id_, "the output in its part is not the one in its text", severity)
    if not is_indexed:
        yield _problem("index message_extras", id_, _NOT_INDEXED, "warning")
        return
    if derived.indexed != index_digest(indexed_text(message.content, message)):
        yield _problem("index messages", id_, "its indexed text differs from its text")
    if derived.fingerprint != fingerprint(message):
        yield _problem("parts message_parts", id_, "its parts do not agree with what was stored")
    if message.body is not None:
        yield from _check_original(stored)


def _has_same_output(message: Message) -> bool:
    """Whether the single output of a tool is the same in its message and its part; JSON may differ."""
    if message.role != "tool" or message.body is not None or len(message.parts) != 1:
        return True
    (part,) = message.parts
    if not isinstance(part, ToolResult) or part.text.lstrip().startswith(("{", "[")) or not message.content.strip():
        return True
    return storable_text(part.text) == message.content


def _check_intercepted(
    archive: Archive, stored: StoredMessage, recipe: Json, derived: DerivedValues, vault: Vault | None
) -> Iterator[VerificationProblem]:
    """A message with a payload in a file, with its bytes restored, must be the message that was stored."""
    if vault is None or derived.fingerprint is None:
        return
    original = _restored(archive, str(stored.id), stored.message, recipe, vault)
    if isinstance(original, VerificationProblem):
        yield original
    elif derived.fingerprint != fingerprint(original):
        yield _problem("parts message_parts", stored.id, "with its file restored it differs from what was stored")


def _restored(
    archive: Archive, name: str, message: Message, recipe: Json, vault: Vault
) -> Message | VerificationProblem:
    try:
        return restore_message(message, recipe, payload_reader(archive.files.many, vault), formats.decode)
    except (NotFound, ArchiveError, BadInput) as error:  # a newer version wrote a recipe that this one cannot read
        return _problem("files large_files", name, f"its original cannot be rebuilt: {error}", "warning")


def _versions(archive: Archive, vault: Vault | None) -> Iterator[VerificationProblem]:
    """Earlier and reduced wordings: each can be rebuilt, has the stored text, and is findable."""
    totals, is_right, versions = WordTotals(), True, iter(archive.versions.each())
    while page := list(islice(versions, _PAGE)):
        for version in page:
            if isinstance(version, ArchiveCorrupt):
                yield _problem("versions message_versions", "", str(version))
                is_right = False
            else:
                yield from _check_version(archive, version, vault)
        kept = [one for one in page if not isinstance(one, ArchiveCorrupt)]
        whole = [(one.id, one.indexed) for one in kept if one.is_whole]
        found = list(_found("index", "version_index", archive.checks.version_rows(whole, totals)))
        is_right = is_right and not found
        yield from found
    if is_right:
        yield from _found("index", "version_index", archive.checks.index_totals("version_index", totals))


def _check_version(archive: Archive, version: Version, vault: Vault | None) -> Iterator[VerificationProblem]:
    name, original = f"{version.id} of message {version.message_id}", version.message
    if version.recipe is not None and version.digest != words_digest(original):
        if vault is None:
            return
        restored = _restored(archive, name, original, version.recipe, vault)
        if isinstance(restored, VerificationProblem):
            yield restored
            return
        original = restored
    if version.digest != words_digest(original):
        yield _problem("versions message_versions", name, "its text is not the stored one")


def _check_original(stored: StoredMessage) -> Iterator[VerificationProblem]:
    message = stored.message
    try:
        again = formats.decode(message.original, message.format)
    except BadInput as error:
        yield _problem("original message_extras", stored.id, f"its original cannot be read: {error}")
        return
    if stored.file_id is None and (again.role, storable_text(again.content)) != (message.role, message.content):
        yield _problem("original message_extras", stored.id, "its original does not agree with its content")


def _damaged_indexes(archive: Archive) -> Iterator[VerificationProblem]:
    for table in archive.checks.damaged_indexes():
        yield _problem(f"index {table}", "", f"it does not find what it should; {_ANEW} rebuilds it")


def _upstream_index(archive: Archive) -> Iterator[VerificationProblem]:
    """lossless-claw's search tables: some missing rows are no loss here, but all of them are."""
    emptied = archive.index.emptied_upstream()
    for table in emptied:
        detail = f"it has lost all its rows, and lossless-claw finds nothing; {_ANEW} fills it again"
        yield _problem(f"index {table}", "", detail)
    if not emptied and (count := sum(len(rows) for _, rows in archive.index.upstream_lost())):
        detail = f"lossless-claw's own search tables lack {count:,} rows; {_ANEW} adds them"
        yield _problem("index messages_fts", "", detail, "warning")


def _shrinking(archive: Archive) -> Iterator[VerificationProblem]:
    for id_, model in archive.checks.not_smaller():
        yield _problem("shrink summaries", id_, f"it is no smaller than its sources (written by {model!r})", "warning")


def _reachability(archive: Archive) -> Iterator[VerificationProblem]:
    twice: Severity = "warning" if archive.index.upstream else "error"  # in rows that lossless-claw has written
    for conversation_id in archive.checks.conversation_ids():
        where, ids = f"conversation {conversation_id}", archive.checks.unreachable(conversation_id)
        if ids and archive.context.was_cleared(conversation_id, ids):
            detail = f"{where}: {len(ids):,} messages left when lossless-claw handled `/new`; {_LATER}"
            yield _problem("reachable messages", ids[0], detail, "warning")
        else:
            detail = f"{where}: it is neither in the context, nor below a summary in it, nor hidden"
            yield from (_problem("reachable messages", id_, detail) for id_ in ids)
        for id_ in archive.checks.covered_twice(conversation_id):
            yield _problem("reachable context_items", id_, f"{where}: the context holds it more than once", twice)


def _files(archive: Archive, vault: Vault | None) -> Iterator[VerificationProblem]:
    for file in archive.checks.file_places():
        if detail := find_damage(file.id, file.place, file.size, file.is_proven_by, vault):
            yield _problem("files large_files", file.id, detail)

"""Proving an archive: everything that was stored is there, findable and reachable."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lossless import formats
from lossless.errors import ArchiveCorrupt, ArchiveError, BadInput, NotFound
from lossless.files.intercept import restored
from lossless.files.keep import reader
from lossless.files.place import lies_at
from lossless.model.identity import fingerprint, identity_hash, words_digest
from lossless.model.messages import ToolResult
from lossless.store.index import digest, indexed_text
from lossless.store.skeleton import storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.files.vault import Vault
    from lossless.model.messages import Json, Message, StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.checks import Derived, Offender
    from lossless.store.versions import Version

Severity = Literal["error", "warning"]
_PAGE = 500
_NOT_INDEXED = "not indexed yet; `lcm doctor reindex --apply` does it"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that should hold and does not: which rule, which row, what is wrong."""

    check: str
    table: str
    id: str
    detail: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.severity}: {self.table} {self.id}: {self.detail} ({self.check})"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome: `ok` when there is no error; warnings concern rows that other programs wrote."""

    problems: tuple[Problem, ...]
    messages: int
    summaries: int

    @property
    def ok(self) -> bool:
        return not any(problem.severity == "error" for problem in self.problems)


def verify(archive: Archive, progress: Callable[[int], None] | None = None, vault: Vault | None = None) -> Verification:
    """Check every row of an archive; reads only, in bounded memory.

    With the vault of its payloads, messages whose payloads lie in files are checked as they came.
    """
    problems = [_problem("integrity", offender) for offender in archive.checks.integrity()]
    if any(problem.table == "database" for problem in problems):
        return Verification(tuple(problems), 0, 0)
    problems.extend(_problem("rows", offender) for offender in archive.checks.rows())
    problems.extend(_order(archive))
    count, unindexed = 0, _Unindexed()
    for page in archive.checks.derived():
        problems.extend(unindexed.without(_check_messages(archive, page, vault)))
        count += len(page)
        if progress:
            progress(len(page))
    problems.extend(unindexed.without(_summary_texts(archive)))
    problems.extend(unindexed.problems())
    problems.extend(_versions(archive, vault))
    problems.extend(_upstream_index(archive))
    problems.extend(_shrinking(archive))
    problems.extend(_reachability(archive))
    problems.extend(_files(archive, vault))
    return Verification(tuple(problems), count, archive.care.counts().summaries)


class _Unindexed:
    """Rows of other programs that are not indexed yet: counted, as there may be very many of them."""

    def __init__(self) -> None:
        self._first: dict[str, Problem] = {}
        self._counts: Counter[str] = Counter()

    def without(self, found: Iterable[Problem]) -> Iterator[Problem]:
        """The other problems; these are counted."""
        for problem in found:
            if (problem.check, problem.severity) == ("index", "warning"):
                self._first.setdefault(problem.table, problem)
                self._counts[problem.table] += 1
            else:
                yield problem

    def problems(self) -> Iterator[Problem]:
        """One warning a table, that names the first row and counts the others."""
        for table, first in self._first.items():
            more = self._counts[table] - 1
            yield replace(first, id=f"{first.id} and {more:,} more") if more else first


def _problem(check: str, offender: Offender) -> Problem:
    return Problem(check, offender.table, offender.id, offender.detail)


def _index_problem(offender: Offender) -> Problem:
    """What is only not indexed yet can be caught up."""
    if offender.table == "summary_extras":
        return Problem("index", offender.table, offender.id, _NOT_INDEXED, "warning")
    return Problem("index", offender.table, offender.id, offender.detail)


def _check_messages(archive: Archive, page: list[Derived], vault: Vault | None) -> Iterator[Problem]:
    """Work out again what was worked out when these messages were stored."""
    stored: dict[int, StoredMessage] = {}
    try:
        stored = {message.id: message for message in archive.messages.many([derived.message_id for derived in page])}
    except ArchiveCorrupt:
        yield from _unreadable(archive, page, stored)
    recipes = archive.files.recipes(list(stored))
    for derived in page:
        message = stored.get(derived.message_id)
        if message is not None and derived.message_id in recipes:
            yield from _check_intercepted(archive, message, recipes[message.id], derived, vault)
        elif message is not None:
            yield from _check_message(message, derived)
    texts = [(derived, stored[derived.message_id].message) for derived in page if derived.message_id in stored]
    indexed = [(derived, indexed_text(message.content, message)) for derived, message in texts]
    current = [(derived, text) for derived, text in indexed if derived.digest == digest(text)]
    yield from _readable_index("message_index", (_problem("index", one) for one in archive.checks.index_rows(current)))


def _summary_texts(archive: Archive) -> Iterator[Problem]:
    return _readable_index("summary_index", map(_index_problem, archive.checks.summary_digests()))


def _readable_index(table: str, found: Iterable[Problem]) -> Iterator[Problem]:
    """What was found, up to where the index itself cannot be read any more."""
    try:
        yield from found
    except ArchiveCorrupt as error:
        yield Problem("index", table, "", str(error))


def _unreadable(archive: Archive, page: list[Derived], stored: dict[int, StoredMessage]) -> Iterator[Problem]:
    """Read a page one by one into `stored`; what cannot be read back is a problem of its own."""
    for derived in page:
        try:
            stored[derived.message_id] = archive.messages.get(derived.message_id)
        except ArchiveCorrupt as error:
            yield Problem("original", "message_extras", str(derived.message_id), str(error))


def _check_message(stored: StoredMessage, derived: Derived) -> Iterator[Problem]:
    id_, message = str(stored.id), stored.message
    if derived.identity and derived.identity != identity_hash(message.role, message.content):
        yield Problem("identity", "messages", id_, "its identity is not the one that we give its text", "warning")
    is_indexed = derived.fingerprint is not None and derived.digest is not None
    if not _is_told_alike(message):
        detail = "the output in its part is not the one in its text"
        yield Problem("parts", "message_parts", id_, detail, "error" if is_indexed else "warning")
    if not is_indexed:
        yield Problem("index", "message_extras", id_, _NOT_INDEXED, "warning")
        return
    if derived.digest != digest(indexed_text(message.content, message)):
        yield Problem("index", "messages", id_, "its indexed text is not its text")
    if derived.fingerprint != fingerprint(message):
        yield Problem("parts", "message_parts", id_, "its parts do not agree with what was stored")
    if message.body is not None:
        yield from _check_original(stored)


def _is_told_alike(message: Message) -> bool:
    """Whether the one output of a tool stands in its message and in its part alike.

    What came through a codec is told from its original, and of an output in JSON a message may hold only the words.
    """
    if message.role != "tool" or message.body is not None or len(message.parts) != 1:
        return True
    (part,) = message.parts
    if not isinstance(part, ToolResult) or part.text.lstrip().startswith(("{", "[")) or not message.content.strip():
        return True
    return storable(part.text) == message.content


def _check_intercepted(
    archive: Archive, stored: StoredMessage, recipe: Json, derived: Derived, vault: Vault | None
) -> Iterator[Problem]:
    """A message whose payload lies in a file is, with its bytes put back, the message that was stored."""
    if vault is None or derived.fingerprint is None:
        return
    try:
        original = restored(stored.message, recipe, reader(archive.files, vault), formats.decode)
    except (NotFound, ArchiveError) as error:
        yield Problem("files", "large_files", str(stored.id), f"its original cannot be made again: {error}", "warning")
        return
    if derived.fingerprint != fingerprint(original):
        yield Problem("parts", "message_parts", str(stored.id), "with its file put back it is not what was stored")


def _versions(archive: Archive, vault: Vault | None) -> Iterator[Problem]:
    """Earlier and lesser wordings: each is rebuilt, has the words that were kept, and is findable."""
    whole: list[tuple[int, str]] = []
    for version in archive.versions.each():
        if isinstance(version, ArchiveCorrupt):
            yield Problem("versions", "message_versions", "", str(version))
            continue
        yield from _check_version(archive, version, vault)
        if version.is_whole:
            whole.append((version.id, version.indexed))
        if len(whole) == _PAGE:
            yield from _version_index(archive, whole)
            whole = []
    yield from _version_index(archive, whole)


def _version_index(archive: Archive, texts: list[tuple[int, str]]) -> Iterator[Problem]:
    return _readable_index("version_index", (_problem("index", one) for one in archive.checks.version_rows(texts)))


def _check_version(archive: Archive, version: Version, vault: Vault | None) -> Iterator[Problem]:
    name = f"{version.id} of message {version.message_id}"
    if version.digest == words_digest(version.message):
        return
    if version.recipe is not None and vault is None:
        return
    if version.recipe is not None and vault is not None:
        try:
            original = restored(version.message, version.recipe, reader(archive.files, vault), formats.decode)
        except (NotFound, ArchiveError) as error:
            yield Problem("files", "large_files", name, f"its original cannot be made again: {error}", "warning")
            return
        if version.digest == words_digest(original):
            return
    yield Problem("versions", "message_versions", name, "its words are not those that were kept")


def _check_original(stored: StoredMessage) -> Iterator[Problem]:
    """The original, decoded again, says what the row says."""
    message = stored.message
    try:
        again = formats.decode(message.original, message.format)
    except BadInput as error:
        yield Problem("original", "message_extras", str(stored.id), f"its original cannot be read: {error}")
        return
    if stored.file_id is None and (again.role, storable(again.content)) != (message.role, message.content):
        yield Problem("original", "message_extras", str(stored.id), "its original does not agree with its content")


def _order(archive: Archive) -> Iterator[Problem]:
    """Contexts tell what was said in its order; one that begins with another conversation's summaries may not."""
    for offender, is_certain in archive.checks.out_of_order():
        yield replace(_problem("order", offender), severity="error" if is_certain else "warning")


def _upstream_index(archive: Archive) -> Iterator[Problem]:
    """Search tables of lossless-claw are its own: some rows that they lack are no loss here, but all of them are."""
    emptied = archive.checks.upstream_emptied()
    for table in emptied:
        detail = (
            "it has lost all its rows, and lossless-claw finds nothing; `lcm doctor reindex --apply` fills it again"
        )
        yield Problem("index", table, "", detail)
    if not emptied and (count := archive.checks.upstream_lost()):
        detail = f"lossless-claw's own search tables lack {count:,} rows; `lcm doctor reindex --apply` puts them there"
        yield Problem("index", "messages_fts", "", detail, "warning")


def _shrinking(archive: Archive) -> Iterator[Problem]:
    for summary_id, model in archive.checks.not_smaller():
        detail = f"it is no smaller than its sources (written by {model!r})"
        yield Problem("shrink", "summaries", summary_id, detail, "warning")


def _reachability(archive: Archive) -> Iterator[Problem]:
    for conversation_id in archive.checks.conversation_ids():
        for message_id in archive.checks.unreachable(conversation_id):
            detail = (
                f"conversation {conversation_id}: it is neither in the context, nor below a summary in it, nor hidden"
            )
            yield Problem("reachable", "messages", str(message_id), detail)
        for message_id in archive.checks.covered_twice(conversation_id):
            detail = f"conversation {conversation_id}: the context holds it more than once"
            yield Problem("reachable", "context_items", str(message_id), detail, "warning")


def _files(archive: Archive, vault: Vault | None) -> Iterator[Problem]:
    for file_id, place, size in archive.checks.file_places():
        path = lies_at(place, vault)
        if not path.is_file():
            yield Problem("files", "large_files", file_id, f"its bytes are not at {place}", "warning")
        elif size is not None and path.stat().st_size != size:
            yield Problem("files", "large_files", file_id, f"{path} has another size than was stored")

"""Permanent removal on request: a phrase, messages or a session, from an archive and its backups; and the proof that no
file contains the words.

Each message is rebuilt to its original, masked as ingest will mask it from now on, and stored in place.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import ArchiveError, BadInput, LosslessError, NotFound
from lossless.files.media_types import storage_extension
from lossless.files.vault import OrphanFile, Vault
from lossless.ingest.events import mask_message
from lossless.ingest.run import ConversationWriter, PayloadPolicy
from lossless.maintenance import backup as backups
from lossless.maintenance.engine_parts import EngineParts, with_payloads
from lossless.maintenance.surgery.rewriting import summary_source
from lossless.model import masking
from lossless.model.context import EXTRACTIVE_MODEL, Summary
from lossless.model.conversations import SessionRef, as_session
from lossless.model.identity import file_id, file_ids_in, fingerprint, identity_hash, words_digest
from lossless.model.js_json import storable_json
from lossless.model.messages import Json, Message, StoredMessage, ToolCall, ToolResult
from lossless.model.records import ContextChange
from lossless.model.tokens import estimate_tokens
from lossless.store.archive import Archive
from lossless.store.database import drop_wal
from lossless.store.maintenance.deletion import ArchiveRemover, DatabaseScan
from lossless.store.maintenance.surgery import SurgeryWrites
from lossless.store.messages import NewMessage
from lossless.store.state import EVERYWHERE, ForgetRound
from lossless.store.versions import StoredWording, Version

if TYPE_CHECKING:
    from lossless.compaction.summariser import Summariser

#: A whole message: its fingerprint, and the conversation in which it is forgotten.
ForgottenMessage: TypeAlias = tuple[bytes, int]
TEXT_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
#: A text of at least this length is unique: forgotten in one conversation, it is forgotten in all.
MIN_UNIQUE_CHARS = 40
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: phrases everywhere, and whole messages."""

    phrases: tuple[str, ...] = field(default=(), repr=False)
    whole: frozenset[ForgottenMessage] = field(default=frozenset(), repr=False)
    #: Conversations with all of their messages.
    conversation_ids: tuple[int, ...] = ()
    #: Earlier rounds, to be applied to newer rows.
    rounds: tuple[ForgetRound, ...] = field(default=(), repr=False)

    @property
    def cut(self) -> masking.CutText:
        cuts = [round_ for round_ in self.rounds if not isinstance(round_, frozenset)]
        own = masking.exact_cutter(self.phrases)
        return lambda text: own(reduce(lambda rest, cut: cut(rest), cuts, text))

    @property
    def cuts(self) -> bool:
        """Whether there are texts to be removed."""
        return bool(self.phrases) or not all(isinstance(round_, frozenset) for round_ in self.rounds)


@dataclass(frozen=True, slots=True)
class ForgetChanges:
    """What a forget changes in one archive; numbers and names, never words."""

    #: Messages that lose text, by id.
    message_ids: tuple[int, ...] = ()
    #: How many of them lose all.
    emptied: int = 0
    versions: int = 0
    files: int = 0
    #: Summaries that are rewritten from what is left, and those from which a phrase is removed.
    rewritten: int = 0
    cut: int = 0
    #: Texts in other tables, by table.
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    #: Places that keep the words, each with its reason.
    left: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        counts = (self.message_ids, self.versions, self.files, self.rewritten, self.cut, self.elsewhere)
        return not any(counts)


@dataclass(frozen=True, slots=True)
class ForgetTools:
    archive: Archive
    vault: Vault | None
    summariser: Summariser
    threshold_tokens: int
    now: datetime
    progress: Callable[[int], None] | None = None


#: A message that loses text: its original, its new state, the same for its versions, whether its payloads are in files,
#: and the files that go with it.
_AffectedMessage: TypeAlias = "tuple[StoredMessage, Message, Sequence[tuple[Version, Message]], bool, Sequence[str]]"


def run_forget(tools: ForgetTools, wanted: ForgetRequest, *, dry_run: bool = False) -> ForgetChanges:
    """Forget in one transaction, then delete the payloads; or say what that would change."""
    with tools.archive.reading() if dry_run else tools.archive.writing():
        work = _Forgetting(tools, wanted, dry_run=dry_run)
        found = list(work.found())
        work.rewrite_files()
        for one in found:
            work.rewrite(one)
        work.rewrite_summaries()
        work.rewrite_other_tables()
        if not dry_run:
            work.settle()
    touched = work.touched()
    return touched if dry_run else replace(touched, left=(*touched.left, *_finish(tools)))


def reapply_forgotten(tools: ForgetTools) -> ForgetChanges | None:
    """Remove what was forgotten earlier and has come back with imported rows; None when nothing was."""
    rounds = tools.archive.tombstones.rounds()
    return run_forget(tools, ForgetRequest(rounds=rounds)) if rounds else None


def _is_among(whole: Collection[ForgottenMessage], where: int, print_: bytes) -> bool:
    return (print_, EVERYWHERE) in whole or (print_, where) in whole


def _finish(tools: ForgetTools) -> tuple[str, ...]:
    """Delete the payloads of what was forgotten, and vacuum the file; returns what is left, for another run."""
    work, remaining = ArchiveRemover(tools.archive), []
    for path in work.pending or ():
        place, vault = Path(path), tools.vault
        if vault is None or place.parent.parent != vault.root:
            remaining.append(f"payload {path}: it is outside of the folder of files")
            continue
        try:
            vault.remove(OrphanFile(place, place.name.partition(".")[0], 0))
        except (OSError, ArchiveError) as error:
            remaining.append(f"payload {path}: {error}")
    if (reason := work.write_anew()) is not None:
        remaining.append(f"database {tools.archive.path}: {reason}")
    if not remaining:
        with tools.archive.writing():
            work.finish()
    return tuple(remaining)


class _Forgetting:
    def __init__(self, tools: ForgetTools, wanted: ForgetRequest, *, dry_run: bool) -> None:
        self._tools, self._wanted, self._dry_run = tools, wanted, dry_run
        self._archive, self._store = tools.archive, ArchiveRemover(tools.archive)
        self._cut = wanted.cut
        self._cut_loosely = masking.loose_cutter(wanted.phrases)
        #: Messages that lose all text.
        self._whole: set[int] = set()
        alike = self._store.alike({one for one, _ in wanted.whole}) if wanted.whole else []
        self._whole.update(id_ for id_, where, print_ in alike if _is_among(wanted.whole, where, print_))
        before = {whole for round_ in wanted.rounds if isinstance(round_, frozenset) for whole in round_}
        for ids in self._store.pages(_PAGE) if before else ():
            for id_, where, print_ in self._store.fingerprints(ids):
                if _is_among(before, where, self._archive.tombstones.digest(print_)):
                    self._whole.add(id_)
        self._changed: dict[int, int] = {}
        self._emptied = self._versions = self._rewritten = self._cut_summaries = 0
        self._elsewhere: Counter[str] = Counter()
        self._left: list[str] = []
        #: Messages whose format needs the phrase as a name.
        self._named = 0
        #: Files that were replaced, and files of deleted messages.
        self._files: dict[str, str] = {}
        self._gone: set[str] = set()

    def found(self) -> Iterator[_AffectedMessage]:
        """Every message that loses text, or one of its versions does."""
        for ids in self._store.pages(_PAGE):
            recipes = self._archive.context.recipes(ids)
            versions = self._archive.versions.many(ids)
            for stored in self._archive.messages.many(ids):
                one = self._look(stored, recipes.get(stored.id), versions.get(stored.id, ()))
                if one is not None:
                    yield one
            if self._tools.progress:
                self._tools.progress(len(ids))

    def _look(self, stored: StoredMessage, recipe: Json, versions: Sequence[Version]) -> _AffectedMessage | None:
        keys = (("transcript_entry_id", stored.entry_id), ("stable_event_key", stored.message.event_key))
        for column, name in keys:
            if name is not None and self._cut(name) is not name:
                self._left.append(f"messages.{column}: it is the host's name of a message")
        restored = partial(with_payloads, self._archive, self._tools.vault)
        original = restored(stored.message, recipe)
        if stored.id in self._whole:
            named = file_ids_in(json.dumps([recipe, stored.file_id, *(version.recipe for version in versions)]))
            fresh = masking.empty_message(replace(original, event_key=stored.message.event_key))
            is_changed = stored.message.content != masking.FORGOTTEN or bool(versions)
            return (stored, fresh, (), False, named) if is_changed else None
        fresh = mask_message(original, self._cut) if self._wanted.cuts else original
        names = [part.name for part in fresh.parts if isinstance(part, ToolCall | ToolResult)]
        self._named += self._wanted.cuts and self._cut(text := storable_json([fresh.original, names])) is not text
        others = [(version, restored(version.message, version.recipe)) for version in versions]
        made = tuple((version, mask_message(old, self._cut)) for version, old in others) if self._wanted.cuts else ()
        is_sender = stored.sender is not None and self._cut(stored.sender) is not stored.sender
        is_changed = fresh is not original or is_sender
        if not is_changed and all(new is old for (_, new), (_, old) in zip(made, others, strict=False)):
            return None
        return stored, fresh, made, recipe is not None, ()

    def rewrite(self, found: _AffectedMessage) -> None:
        stored, fresh, old_versions, has_files, file_ids = found
        self._changed[stored.id] = stored.conversation_id
        self._emptied += stored.id in self._whole
        self._versions += len(old_versions)
        self._gone.update(file_ids)
        if self._dry_run:
            return
        archive, now = self._archive, self._tools.now
        conversation, vault = archive.conversations.get(stored.conversation_id), self._tools.vault
        policy = None if vault is None else PayloadPolicy(vault, self._tools.threshold_tokens)
        is_whole = stored.id in self._whole
        sender = None if stored.sender is None else masking.FORGOTTEN if is_whole else self._cut(stored.sender)
        file = None if is_whole or stored.file_id is None else self._files.get(stored.file_id, stored.file_id)
        identity, entry = identity_hash(fresh.role, fresh.content), stored.entry_id
        base = NewMessage(fresh, identity, fingerprint(fresh), stored.created_at, entry, None, sender, file)
        writer = ConversationWriter(archive, conversation, now, policy if has_files else None)
        new, notes = writer.extract_payloads(base)
        versions = []
        for version, message in old_versions:
            writer = ConversationWriter(archive, conversation, now, None if version.recipe is None else policy)
            kept, noted = writer.extract_payloads(replace(base, message=message))
            versions.append((version, StoredWording.of(kept.message, noted), words_digest(message)))
        archive.versions.replace(conversation, stored.id, new, versions, digest=words_digest(fresh), notes=notes)

    def rewrite_files(self) -> None:
        """Write payloads without the phrases next to the originals, which are deleted when unreferenced."""
        vault = self._tools.vault
        if vault is None or not self._wanted.cuts:
            return
        forms = [form for phrase in self._wanted.phrases for form in masking.phrase_forms(phrase)]
        for file in self._archive.files.listed():
            try:
                data = vault.read(file).data
            except (NotFound, ArchiveError):
                continue
            try:
                text = data.decode()
            except UnicodeDecodeError:  # a phrase cannot be removed from a binary payload
                if any(form.encode(name) in data for form in forms for name in TEXT_ENCODINGS):
                    reason = "contains it, and is not text; forget the message that it belongs to"
                    self._left.append(f"file {file.id} {reason}")
                continue
            if (fresh := self._cut(text)) is text:
                continue
            data = fresh.encode()
            id_ = self._files[file.id] = "" if self._dry_run else file_id(file.conversation_id, data)
            if id_:
                place = vault.write(file.conversation_id, id_, storage_extension(file.name, file.mime), data)
                lines = None if file.line_count is None else file.line_count - text.count("\n") + fresh.count("\n")
                name, summary = (given and self._cut(given) for given in (file.name, file.exploration_summary))
                row = replace(file, id=id_, byte_size=len(data), line_count=lines, storage_uri=str(place), name=name)
                self._archive.files.add([replace(row, exploration_summary=summary)])

    def _clean(self, summary: Summary) -> str:
        """A summary's text without phrases, in any spelling, and with the new names of files."""
        text = summary.content
        if self._wanted.cuts:
            text = self._cut(text)
        if self._wanted.phrases:
            text = self._cut_loosely(text)
        for old, new in self._files.items():
            text = text.replace(old, new or old)
        for old in self._gone:
            text = text.replace(old, masking.FORGOTTEN)
        return text

    def rewrite_summaries(self) -> None:
        """Rewrite summaries from what is left; a model's loses the phrase now, and is rewritten later."""
        operations, affected, again = SurgeryWrites(self._archive), [], []
        leaves = self._archive.summaries.leaves_over(list(self._changed))
        above, files_gone = set(operations.above(leaves)) if leaves else set(), {*self._files, *self._gone}
        for summary in self._archive.summaries.many(self._store.summary_ids()):  # shallowest first
            text, model, files = self._clean(summary), summary.model, summary.file_ids
            has_files = not files_gone.isdisjoint((*files, *file_ids_in(summary.content)))
            if summary.id not in above and not has_files and text == summary.content:
                continue
            affected.append(summary.id)
            is_extracted = summary.id in above and (model == EXTRACTIVE_MODEL or bool(self._whole))
            is_changed = text != summary.content
            if not self._dry_run:
                if is_extracted:
                    again.append(summary.id)
                    text, model = self._extracted(summary)
                files = tuple(self._files.get(id_, id_) for id_ in files if id_ not in self._gone)
                is_changed = (text, files) != (summary.content, summary.file_ids)
                if is_changed:
                    operations.write(summary.id, text, estimate_tokens(text), model, files)
            self._rewritten += is_extracted and (is_changed or self._dry_run)
            self._cut_summaries += is_changed and not is_extracted
        if not self._dry_run:
            operations.recount(affected)
            self._archive.summaries.mark_stale(list(self._changed), self._tools.now)
            self._archive.summaries.clear_stale(again)

    def _extracted(self, summary: Summary) -> tuple[str, str]:
        """A summary's text extracted from its current sources; only the mark when nothing is left."""
        summariser = self._tools.summariser
        source = summary_source(self._archive, summariser, summary.id, {})
        written = summariser.write(source) if source.parts else None
        if written is None:
            return (masking.FORGOTTEN, EXTRACTIVE_MODEL) if self._whole else (self._clean(summary), summary.model)
        return self._clean(replace(summary, content=written.text)), EXTRACTIVE_MODEL

    def rewrite_other_tables(self) -> None:
        if not self._wanted.cuts:
            return
        for table, reason in self._store.rewrite_cells(self._cut, dry_run=self._dry_run):
            if reason is None:
                self._elsewhere[table] += 1
            else:
                self._left.append(reason)
        cut = partial(masking.cut_json, cut=self._cut)
        if records := self._store.rewrite_records(cut, dry_run=self._dry_run):
            self._elsewhere["transcript_records"] += records

    def settle(self) -> None:
        """Follow-up: old payloads, data derived from whole messages, prints, tombstones, indexes, the log."""
        archive, now = self._archive, self._tools.now
        conversations = sorted(set(self._changed.values()))
        emptied_in = sorted({self._changed[id_] for id_ in self._whole & self._changed.keys()})
        if emptied_in:
            leaves = archive.summaries.leaves_over(sorted(self._whole))
            above = SurgeryWrites(archive).above(leaves) if leaves else []
            is_session = bool(self._wanted.conversation_ids)
            self._store.empty_beside(emptied_in, above, titles=is_session)
        used, rows = archive.files.referenced_ids(), archive.files.many({*self._files, *self._gone})
        self._left += [f"file {id_}: a message still refers to it" for id_ in sorted(used & rows.keys())]
        going, vault = [row for id_, row in rows.items() if id_ not in used], self._tools.vault
        archive.files.remove([row.id for row in going])  # their bytes are deleted after the commit
        self._store.set_pending([] if vault is None else [str(vault.place_of(row)) for row in going])
        self._store.forget_prints(conversations, self._changed, now)
        archive.tombstones.add([masking.phrase_forms(phrase) for phrase in self._wanted.phrases], self._wanted.whole)
        self._left += [f"search table {name}: it cannot be rebuilt here" for name in self._store.tidy_indexes()]
        for id_ in conversations:
            ids = tuple(one for one, where in self._changed.items() if where == id_)
            tokens = archive.context.tokens(id_)
            archive.context.log(id_, ContextChange("forget", "forget", None, (), ids, None, tokens, tokens), now)

    def touched(self) -> ForgetChanges:
        files = len(self._files.keys() | self._gone)
        if self._named:
            self._left.append(f"{self._named} messages have it in a name that their format needs, such as a tool's")
        return ForgetChanges(
            tuple(self._changed), self._emptied, self._versions, files, self._rewritten, self._cut_summaries,
            dict(self._elsewhere), tuple(dict.fromkeys(self._left)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What was forgotten, or would be: in the archive, and in each backup by its path."""

    archive: ForgetChanges
    backups: tuple[tuple[Path, ForgetChanges], ...] = ()
    #: Places that keep the words, each with its reason.
    left: tuple[str, ...] = ()
    #: Whether an interrupted earlier forget was completed.
    resumed: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was found."""
        return self.archive.is_nothing and all(touched.is_nothing for _, touched in self.backups)


def forget_request(
    archive: Archive, phrases: Sequence[str], message_ids: Sequence[int], session_names: Sequence[str]
) -> ForgetRequest:
    """The request of a user; BadInput for phrases that are too short, NotFound for unknown ids."""
    if not (phrases or message_ids or session_names):
        raise BadInput("say what to forget: phrases, messages or sessions")
    named, store, whole = archive.messages.many(message_ids), ArchiveRemover(archive), set[ForgottenMessage]()
    for id_ in sorted(set(message_ids) - {stored.id for stored in named}):
        raise NotFound("message", id_)
    held = [held for held in store.held() if held.name in session_names]
    for name in set(session_names) - {one.name for one in held}:
        raise NotFound("session", name)
    ids = tuple(one.id for one in held)
    for stored in named:  # long messages are recognised everywhere, short ones only there
        is_unique = len(stored.message.content) >= MIN_UNIQUE_CHARS
        where = EVERYWHERE if is_unique else stored.conversation_id
        for _, conversation_id, print_ in store.fingerprints([stored.id]):
            whole.add((print_, EVERYWHERE if is_unique else conversation_id))
        whole.update((fingerprint(version.message), where) for version in archive.versions.of(stored.id))
    rows = store.fingerprints(store.of_conversations(ids))  # all messages of a conversation, only there
    whole.update((print_, where) for _, where, print_ in rows)
    homes = {id_: where for id_, where, _ in rows}
    for message_id, versions in archive.versions.many(list(homes)).items():
        whole.update((fingerprint(version.message), homes[message_id]) for version in versions)
    return ForgetRequest(tuple(map(masking.check_phrase, dict.fromkeys(phrases))), frozenset(whole), ids)


def plan_forget(
    parts: EngineParts,
    phrases: Sequence[str] = (),
    *,
    message_ids: Sequence[int] = (),
    sessions: Sequence[SessionRef] = (),
) -> ForgetReport:
    """What `forget` would change, in the archive and its backups; changes nothing."""
    asked = forget_request(parts.archive, phrases, message_ids, [as_session(one).name for one in sessions])
    return forget_everywhere(parts, asked, dry_run=True)


def forget(
    parts: EngineParts,
    phrases: Sequence[str] = (),
    *,
    message_ids: Sequence[int] = (),
    sessions: Sequence[SessionRef] = (),
    progress: Callable[[int], None] | None = None,
) -> ForgetReport:
    """Permanently remove phrases, messages or sessions from the archive, its files and its backups.

    A phrase is replaced by `[forgotten]`, a message keeps nothing else. A tombstone without words prevents hosts
    from restoring it. `.left` of the report names what could not be removed.
    """
    asked = forget_request(parts.archive, phrases, message_ids, [as_session(one).name for one in sessions])
    report = forget_everywhere(parts, asked, progress)
    parts.log.log("forget", messages=len(report.archive.message_ids), backups=len(report.backups))
    return report


def forget_everywhere(
    parts: EngineParts, asked: ForgetRequest, progress: Callable[[int], None] | None = None, *, dry_run: bool = False
) -> ForgetReport:
    """Forget in the backups of an archive, then in the archive, or only report where it would."""
    archive, remaining, found = parts.archive, [], []
    threshold, summariser = parts.settings.large_file_threshold_tokens, parts.loop.summariser
    tools = ForgetTools(archive, parts.vault, summariser, threshold, parts.clock(), progress)
    if not dry_run:
        with archive.writing():  # check for write access before a backup is changed
            pass
    for one in [] if archive.path == ":memory:" else backups.list_backups(archive.path):
        try:
            touched = _in_backup(tools, asked, one.path, dry_run=dry_run)
        except (LosslessError, OSError) as error:
            remaining.append(f"backup {one.path}: {error}")
            continue
        remaining += [f"backup {one.path}: {reason}" for reason in touched.left]
        if not touched.is_nothing:
            found.append((one.path, touched))
    is_resumed = ArchiveRemover(archive).pending is not None
    touched = run_forget(tools, asked, dry_run=dry_run)
    return ForgetReport(touched, tuple(found), (*remaining, *touched.left), is_resumed)


def _in_backup(tools: ForgetTools, asked: ForgetRequest, path: Path, *, dry_run: bool) -> ForgetChanges:
    """The same in a backup, whose payloads are in its own folder; unchanged when it has none of it."""
    quiet = replace(tools, vault=Vault(backups.backup_folder(path)), progress=None)
    with Archive.open(path, read_only=True) as archive:
        found = run_forget(replace(quiet, archive=archive), asked, dry_run=True)
        is_half_done = ArchiveRemover(archive).pending is not None
    if dry_run or (found.is_nothing and not found.left and not is_half_done):
        return found
    with Archive.open(path) as archive:
        touched = run_forget(replace(quiet, archive=archive), asked)
        drop_wal(archive.database)
    return touched


_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class AbsenceReport:
    """The result: which files were read, where words were found, and which files could not be read."""

    files: int
    bytes: int
    #: Where words were found: the `phrase` by its number in the request, from 1, never the words; the `file`; and the
    #: `place`, a row and column, or `bytes` outside of any row, such as a free page.
    traces: tuple[dict[str, int | str], ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.traces and not self.unreadable


def archive_files(archive_path: str, vault: Vault | None) -> list[Path]:
    """Every file of an archive: itself, its logs, payloads, backups with theirs, and unfinished copies."""
    place = Path(archive_path)
    neighbours = [entry for entry in sorted(place.parent.iterdir()) if entry.name.lstrip(".").startswith(place.name)]
    folders = [entry for entry in neighbours if entry.is_dir()]
    folders += [backups.backup_folder(entry) for entry in neighbours if entry.suffix == ".bak"]
    folders += [] if vault is None else [vault.root]
    found = [entry for entry in neighbours if entry.is_file()]
    for folder in dict.fromkeys(folders):
        found += [Path(where) / name for where, _, names in os.walk(folder) for name in sorted(names)]
    return list(dict.fromkeys(found))


def prove_absence(archive_path: str, vault: Vault | None, phrases: Sequence[str]) -> AbsenceReport:
    """Search for phrases in every file of an archive, as text, as UTF-16 and inside JSON; read-only."""
    spelled = map(masking.phrase_forms, phrases)
    needles = [{form.encode(name, "surrogatepass") for form in forms for name in TEXT_ENCODINGS} for forms in spelled]
    traces: list[dict[str, int | str]] = []
    unreadable: list[str] = []
    files, size = archive_files(archive_path, vault), 0
    for path in files:
        try:
            with path.open("rb") as file:
                is_database = file.read(len(_SQLITE)) == _SQLITE
            found = list(_in_database(path, phrases, needles)) if is_database else []
            known = {n for n, _ in found}
            found += [(n, "bytes") for n in _in_bytes(path, needles) if n not in known]
            traces += [{"phrase": n, "file": str(path), "place": place} for n, place in found]
            size += path.stat().st_size
        except FileNotFoundError:  # a log that was removed meanwhile
            continue
        except (OSError, LosslessError) as error:
            unreadable.append(f"{path}: {error}")
    return AbsenceReport(len(files), size, tuple(traces), tuple(unreadable))


def _in_database(path: Path, phrases: Sequence[str], needles: Sequence[Collection[bytes]]) -> Iterator[tuple[int, str]]:
    with DatabaseScan(str(path)) as database:
        for place, value in database.values():
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            yield from ((n, place) for n, some in enumerate(needles, 1) if any(one in data for one in some))
        for table, phrase in database.leftovers(phrases):
            yield phrases.index(phrase) + 1, f"{table}: words of deleted rows in the index"


def _in_bytes(path: Path, needles: Sequence[Collection[bytes]]) -> list[int]:
    longest = max((len(one) for some in needles for one in some), default=1)
    found: set[int] = set()
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            data = tail + chunk
            found.update(n for n, some in enumerate(needles, 1) if n not in found and any(one in data for one in some))
            tail = data[-longest:]
    return sorted(found)

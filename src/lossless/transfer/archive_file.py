"""Exports a whole archive to one file of JSON lines, and imports it again, exactly; every line is checked."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import __version__
from lossless.errors import ArchiveCorrupt, ArchiveDenied, BadInput
from lossless.files.vault import Vault
from lossless.model.paths import expand_path
from lossless.model.times import state_time
from lossless.store import bundles
from lossless.store.bundles import PRUNED_TABLE, SIDE_TABLES, BundleReader, RowValues, fit_row
from lossless.store.rows import unpack_message
from lossless.transfer import lossless_claw
from lossless.transfer.files import PayloadCopier, dump_row, extra_row, restore_row, writing_file
from lossless.transfer.lossless_claw import ExportReport, TransferOptions
from lossless.transfer.merge import Merger, import_redacted

if TYPE_CHECKING:
    from lossless.store.archive import Archive
    from lossless.transfer.merge_plan import ImportReport

_PAGE = 1000
FORMAT = "lossless-archive"
VERSION = 1
#: The types of lines, in their order in a block.
TYPES = ("conversation", "message", "summary", "context_items", *SIDE_TABLES, "focus_brief_sources", "former_summaries")
_ORDER = {name: n for n, name in enumerate(TYPES)}
_NO_MESSAGE = dict.fromkeys((*bundles.MESSAGE_COLUMNS, *bundles.EXTRA_COLUMNS))
_ID = (int, str)
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "conversation": {"conversation_id": _ID, "session_id": (str, type(None)), "created_at": (str,), "active": (int,)},
    "message": {
        "message_id": _ID, "seq": (int,), "role": (str,), "content": (str,), "token_count": (int,),
        "created_at": (str,), "parts": (list,),
    },
    "summary": {
        "summary_id": (str,), "content": (str,), "token_count": (int,), "messages": (list,), "sources": (list,),
    },
    "context_items": {"ordinal": (int,)},
    "large_files": {"file_id": (str,), "storage_uri": (str,)},
}  # fmt: skip


#: The position of a conversation in the file: of its first line, and within its last one.
ConversationBlock: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class ArchiveSurvey:
    """The content of a file: its blocks, its counts, the digest of everything before the last line."""

    blocks: list[ConversationBlock] = field(default_factory=list)
    #: The position of the lines about deleted conversations, if there are any.
    pruned: ConversationBlock | None = None
    counts: Counter[str] = field(default_factory=Counter)
    digest: str = ""


def is_archive(path: Path) -> bool:
    """Whether a file begins like an archive file."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(1 << 16))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and first.get("type") == FORMAT


def archive_line(type_: str, values: RowValues) -> bytes:
    text = dump_row({"type": type_} | values) + "\n"
    return text.encode("utf-8", "backslashreplace")  # lone surrogates are escaped


def survey_archive(path: Path) -> ArchiveSurvey:
    """Read and verify a whole file: every line is valid and in order, and the last line matches the others."""
    found = ArchiveSurvey()
    digest = hashlib.sha256()
    last: dict[str, Any] = {}
    place = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if last.get("type") == "end":
                raise _wrong(number, "something comes after the end")
            try:
                given = _parse(raw)
                values = restore_row(given) if isinstance(given, dict) else {}
            except (ValueError, RecursionError, TypeError) as error:
                raise _wrong(number, "it is not valid JSON") from error
            if not isinstance(values.get("type"), str):
                raise _wrong(number, "it has no type")
            if number == 1:
                if values["type"] != FORMAT:
                    raise BadInput("this is not an archive file: its first line does not say so")
                version = values.get("version")
                if not isinstance(version, int) or version > VERSION:
                    raise BadInput(f"this archive file has version {version!r}; this lossless reads up to {VERSION}")
            elif values["type"] == "end":
                found.digest = digest.hexdigest()
            else:
                _check_line(values, number)
                _count(found, values, last, place, number)
            digest.update(raw)
            place += len(raw)
            last = values
    if last.get("type") != "end":
        raise BadInput("the archive file is not whole: its last line is missing")
    if found.digest != last.get("sha256"):
        raise BadInput("the archive file is damaged: its digest is not the one that its last line names")
    if dict(found.counts) != last.get("counts"):
        raise BadInput("the archive file is damaged: its last line counts other lines than there are")
    return found


def _parse(line: bytes) -> Any:
    return json.loads(line.decode("utf-8", "surrogatepass"))


def block_lines(path: Path, block: ConversationBlock) -> Iterator[tuple[str, RowValues]]:
    """The lines of one conversation: type and values, bytes not yet decoded."""
    place, end = block
    with path.open("rb") as file:
        file.seek(place)
        while place < end:
            line = file.readline()
            place += len(line)
            values = _parse(line)
            yield values.pop("type"), values


def _count(found: ArchiveSurvey, values: dict[str, Any], last: dict[str, Any], place: int, number: int) -> None:
    type_ = values["type"]
    if type_ == PRUNED_TABLE:
        found.pruned = (place if found.pruned is None else found.pruned[0], place + 1)
    elif type_ == "conversation" and found.pruned is None:
        found.blocks.append((place, place + 1))
    elif not found.blocks or found.pruned is not None or _ORDER[type_] < _ORDER.get(last["type"], 0):
        raise _wrong(number, f"a line of type {type_!r} is out of place")
    else:
        found.blocks[-1] = (found.blocks[-1][0], place + 1)
    found.counts[type_] += 1


def _check_line(values: dict[str, Any], number: int) -> None:
    type_ = values["type"]
    if type_ not in _ORDER and type_ != PRUNED_TABLE:
        raise _wrong(number, f"the type {type_!r} is unknown")
    for name, kinds in _FIELDS.get(type_, {}).items():
        if not isinstance(values.get(name), kinds):
            raise _wrong(number, f"the field {name!r} is missing or of the wrong kind")
    for part in values.get("parts", ()):
        if not isinstance(part, dict) or not isinstance(part.get("ordinal"), int) or "part_type" not in part:
            raise _wrong(number, "one of its parts has no ordinal or no type")
    if not all(map(bundles.is_stale_mark, values.get("stale", ()))):
        raise _wrong(number, "what changed below it is of the wrong kind")
    if not all(isinstance(one, dict) and bundles.is_version(one) for one in values.get("versions", ())):
        raise _wrong(number, "one of its versions has a field of the wrong kind")


def _wrong(number: int, why: str) -> BadInput:
    return BadInput(f"line {number} of the archive file: {why}")


def export_archive(
    archive: Archive, vault: Vault | None, target: str | Path, options: TransferOptions | None = None
) -> ExportReport:
    """Write an archive to one file, with its files inside or in `files_dir`; it is read back and verified."""
    wanted = options or TransferOptions()
    place = expand_path(target).absolute()
    report = ExportReport(str(place))
    source = PayloadCopier(None, () if vault is None else vault.roots)
    with (
        lossless_claw.reading_sessions(archive, wanted.sessions, report.warnings) as (reader, conversations),
        writing_file(place, overwrite=wanted.overwrite, source=archive.path) as temporary,
    ):
        counts: Counter[str] = Counter()
        digest = hashlib.sha256()
        now, by = state_time(datetime.now(UTC)), f"lossless {__version__}"
        with temporary.open("wb") as file:
            head = [(FORMAT, {"version": VERSION, "createdAt": now, "writtenBy": by})]
            for type_, values in chain(head, _rows(reader, conversations, source, wanted, report)):
                line = archive_line(type_, values)
                digest.update(line)
                file.write(line)
                if type_ != FORMAT:
                    counts[type_] += 1
            file.write(archive_line("end", {"counts": dict(counts), "sha256": digest.hexdigest()}))
        found = survey_archive(temporary)
        if (found.digest, found.counts) != (digest.hexdigest(), counts) or counts["message"] != report.messages:
            raise ArchiveCorrupt("the new file, read back, does not hold what was written")
    return report


def _rows(
    reader: BundleReader, chosen: list[RowValues], source: PayloadCopier, wanted: TransferOptions, report: ExportReport
) -> Iterator[tuple[str, RowValues]]:
    for bundle in lossless_claw.read_bundles(reader, chosen):
        number = bundle.conversation["conversation_id"]
        yield "conversation", bundle.conversation
        for page in bundle.pages():
            for message in page:
                original = _original(message)
                values = {name: value for name, value in message.items() if value is not None}
                yield "message", values if original is None else values | {"original": original}
                report.message_parts += len(message["parts"])
        yield from (("summary", one) for one in bundle.summaries)
        yield from (("context_items", item) for item in bundle.context)
        for table, rows in bundle.tables.items():
            for row in rows:
                yield table, _file_row(row, number, source, wanted.files_dir, report) if table == "large_files" else row
        report.count(bundle)
        if wanted.progress:
            wanted.progress(len(bundle.keys))
    yield from ((PRUNED_TABLE, row) for row in reader.pruned(wanted.sessions))


def _file_row(
    file: RowValues, conversation_id: int, source: PayloadCopier, folder: str | None, report: ExportReport
) -> RowValues:
    data = source.read(file)
    if data is None:
        report.files_missing += 1
        report.warnings.append(f"the bytes of file {file['file_id']!r} were not found")
        return file
    report.files_copied += 1
    if not folder:
        return file | {"data": base64.b64encode(data).decode()}
    suffix = Path(file["storage_uri"]).suffix.removeprefix(".")
    place = Vault(folder).write(conversation_id, file["file_id"], suffix, data)
    return file | {"storage_uri": str(place)}


def _original(message: RowValues) -> object:
    """The original message, where content and parts are not all of it; for readers, not for import."""
    if message["skeleton"] is None:
        return None
    texts = message["role"], message["content"], message["token_count"], bundles.part_rows(message)
    try:
        return unpack_message(*texts, message["skeleton"], message["format"], None).original
    except ValueError:  # damaged, as `lcm verify` reports: the columns are exported unchanged
        return None


def check_archive(source: str | Path) -> ArchiveSurvey:
    """Read a whole archive file; raises when something is wrong with it."""
    place = expand_path(source)
    if not place.exists():
        raise BadInput(f"there is no archive file at {str(source)!r}")
    if not place.is_file():
        raise BadInput(f"source {str(source)!r} is not a file")
    try:
        return survey_archive(place)
    except OSError as error:
        raise ArchiveDenied(f"source {str(source)!r} cannot be read: {error.strerror}") from error


def import_archive(
    source: str | Path,
    archive: Archive,
    vault: Vault | None,
    options: TransferOptions,
    checked: ArchiveSurvey | None = None,
) -> ImportReport:
    """Import the conversations of an archive file; nothing is written before the whole file is verified.

    Existing rows are not changed, so a repeated import adds nothing; an empty archive gets all original numbers.
    `checked` is the result of `check_archive` for the same file.
    """
    place = expand_path(source)
    found = checked or check_archive(place)
    if archive.redact is not None:
        bring = partial(import_archive, source, checked=found)
        return import_redacted(archive, vault, options, archive.redact, bring)
    folders = (Path(options.files_dir),) if options.files_dir else ()
    merger = Merger(archive, PayloadCopier(vault, folders), options)
    conversations: list[RowValues] = []
    for block in found.blocks:
        conversation = next(values for _, values in block_lines(place, block))
        conversations.append(conversation)
        if not options.sessions or lossless_claw.session_names(conversation) & options.sessions:
            merger.add(_bundle(place, block))
    pruned = [extra_row(PRUNED_TABLE, values) for _, values in block_lines(place, found.pruned or (0, 0))]
    merger.finish(bundles.select_pruned(pruned, options.sessions))
    names = map(lossless_claw.session_names, conversations)
    merger.report.warnings += lossless_claw.unknown_session_warnings(names, options.sessions)
    return merger.report


def _bundle(path: Path, block: ConversationBlock) -> bundles.Bundle:
    conversation: RowValues = {}
    keys: list[bundles.MessageKey] = []
    summaries: list[RowValues] = []
    tables: dict[str, list[RowValues]] = {}
    for type_, values in block_lines(path, block):
        if type_ == "conversation":
            conversation = dict.fromkeys(bundles.CONVERSATION_COLUMNS) | fit_row(restore_row(values))
        elif type_ == "message":
            keys.append(bundles.message_key(fit_row({name: values.get(name) for name in bundles.KEY_COLUMNS})))
        elif type_ == "summary":
            summaries.append(dict.fromkeys(bundles.SUMMARY_COLUMNS) | fit_row(restore_row(values)))
        else:
            tables.setdefault(type_, []).append(extra_row(type_, values))
    context = [dict.fromkeys(bundles.CONTEXT_COLUMNS) | item for item in tables.pop("context_items", [])]
    return bundles.Bundle(conversation, keys, lambda: _pages(path, block), summaries, context, tables)


def _pages(path: Path, block: ConversationBlock) -> Iterator[list[RowValues]]:
    page: list[RowValues] = []
    for type_, values in block_lines(path, block):
        if type_ == "message":
            values.pop("original", None)
            parts = [fit_row(part) for part in values["parts"]]
            page.append(_NO_MESSAGE | fit_row(restore_row(values)) | {"parts": parts})
        elif page and type_ != "conversation":
            break
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page

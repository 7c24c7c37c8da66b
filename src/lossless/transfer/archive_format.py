"""The JSON-lines format of whole archives: writing, reading and checking lines; rows as JSON with bytes in base64."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadInput
from lossless.store.bundles import (
    OWN_TABLES,
    PRUNED_TABLE,
    SIDE_TABLES,
    fit_row,
    fit_scalars,
    is_stale_mark,
    is_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.store.bundles import RowValues

_BYTES = "base64"


def dump_row(values: object) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=_encode)


def restore_row(values: dict[str, Any]) -> dict[str, Any]:
    """Values with bytes decoded."""
    return {name: _decode(value) for name, value in values.items()}


def extra_row(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """A row of an additional table, with values that its columns can hold."""
    row = restore_row(values)
    return fit_scalars(row) if table in OWN_TABLES else fit_row(row)


def _encode(value: object) -> object:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == [_BYTES]:
        return base64.b64decode(value[_BYTES]) if isinstance(value[_BYTES], str) else None
    if isinstance(value, list):
        return [restore_row(item) if isinstance(item, dict) else item for item in value]
    return value


FORMAT = "lossless-archive"
VERSION = 1
#: The types of lines, in their order in a block.
TYPES = ("conversation", "message", "summary", "context_items", *SIDE_TABLES, "focus_brief_sources", "former_summaries")
_ORDER = {name: n for n, name in enumerate(TYPES)}
_ID = (int, str)
#: Required fields of a line, and their types.
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


def header_line(created_at: str, version: str) -> bytes:
    return archive_line(FORMAT, {"version": VERSION, "createdAt": created_at, "writtenBy": f"lossless {version}"})


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
                values = json.loads(raw)
                restore_row(values if isinstance(values, dict) else {})
            except (ValueError, RecursionError, TypeError) as error:
                raise _wrong(number, "it is not valid JSON") from error
            if not isinstance(values, dict) or not isinstance(values.get("type"), str):
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


def block_lines(path: Path, block: ConversationBlock) -> Iterator[tuple[str, RowValues]]:
    """The lines of one conversation: type and values."""
    with path.open("rb") as file:
        file.seek(block[0])
        while file.tell() < block[1]:
            values = json.loads(file.readline())
            yield values.pop("type"), restore_row(values)


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
    if not all(map(is_stale_mark, values.get("stale", ()))):
        raise _wrong(number, "what changed below it is of the wrong kind")
    if not all(isinstance(one, dict) and is_version(restore_row(one)) for one in values.get("versions", ())):
        raise _wrong(number, "one of its versions has a field of the wrong kind")


def _wrong(number: int, why: str) -> BadInput:
    return BadInput(f"line {number} of the archive file: {why}")

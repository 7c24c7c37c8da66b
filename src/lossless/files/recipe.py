"""How an original is made again from the message that is shown and the files that hold its payloads.

A recipe is a list of steps, in the order in which the message was rewritten; they are undone from the last to
the first. Each step says where a value stands, what frame it had, and from which pieces its texts are joined:

    {"at": ["content", 1], "frame": {"type": "image", "data": ""}, "holes": [[["data"], [{"file": "…", "as": "…"}]]]}
    {"at": ["content"], "holes": [[[], [[0, 16], "<file name='a.csv'>", {"file": "…"}, "</file>", [60, 75]]]]}

Without a frame, the value itself is the hole. A pair of numbers is a slice of the text that is shown there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lossless.errors import ArchiveCorrupt, BadInput
from lossless.files.encodings import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.model.messages import Json, JsonObject

#: Where a value stands in a document: keys of objects and places in lists.
Path: TypeAlias = tuple[str | int, ...]
#: Gives the bytes of a file by its id.
Read: TypeAlias = "Callable[[str], bytes]"

TEXT, JSON = "utf-8", "json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A slice of the text that is shown."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FromFile:
    """What a file holds: its text or a slice of it, its JSON or one item of it, or its bytes in base64."""

    file_id: str
    #: `utf-8`, `json`, or a form of base64 (see `encodings`).
    form: str = TEXT
    start: int | None = None
    end: int | None = None


Piece: TypeAlias = str | Kept | FromFile


@dataclass(frozen=True, slots=True)
class Hole:
    """A place inside a frame, and the pieces that fill it."""

    at: Path
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One rewriting, as far as it takes to undo it."""

    at: Path
    holes: tuple[Hole, ...]
    frame: Json = None

    @property
    def as_json(self) -> dict[str, Json]:
        holes: list[Json] = [[[*hole.at], [_piece_json(piece) for piece in hole.pieces]] for hole in self.holes]
        step: dict[str, Json] = {"at": list(self.at), "holes": holes}
        return step if self.frame is None else step | {"frame": self.frame}


def to_json(steps: Sequence[Step]) -> list[Json]:
    """A recipe as JSON."""
    return [step.as_json for step in steps]


def from_json(recipe: Json) -> tuple[Step, ...]:
    """The recipe that `to_json` was given; `BadInput` for anything else."""
    try:
        return tuple(_step(step) for step in cast("list[Any]", recipe))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise BadInput("a recipe for an original that this version cannot read") from error


def restore(shown: JsonObject, steps: Sequence[Step], read: Read) -> dict[str, Any]:
    """The document that was rewritten into `shown`, key order and numbers as they were.

    `read` gives the bytes of a file; what it raises for a missing one is passed on. ArchiveCorrupt when the
    recipe, the message and the files do not fit together.
    """
    document: Any = shown
    files = _Files(read)
    try:
        for step in reversed(steps):
            document = _undone(document, step, files)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveCorrupt(
            "an original cannot be made again: its recipe, its message and its files differ"
        ) from error
    return cast("dict[str, Any]", document)


def _undone(document: Any, step: Step, files: _Files) -> Any:
    before = value_at(document, step.at)
    value = _copied(step.frame)
    for hole in step.holes:
        filled = _filled(hole.pieces, before, files)
        if hole.at:
            value_at(value, hole.at[:-1])[hole.at[-1]] = filled
        else:
            value = filled
    return with_value(document, step.at, value)


def value_at(document: Any, path: Path) -> Any:
    """What stands at a path."""
    for key in path:
        document = document[key]
    return document


def with_value(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a path; what is not on the path is shared, nothing is changed."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        return {k: with_value(v, rest, value) if k == key else v for k, v in document.items()}
    return [with_value(v, rest, value) if n == key else v for n, v in enumerate(document)]


def _copied(value: Json) -> Any:
    """A copy whose objects and lists may be changed."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_copied(inner) for inner in value]
    return value


class _Files:
    """The files of one recipe, each read once."""

    def __init__(self, read: Read) -> None:
        self.bytes = cache(read)
        self.text = cache(lambda file_id: self.bytes(file_id).decode("utf-8", "surrogatepass"))
        self.json = cache(lambda file_id: json.loads(self.bytes(file_id)))


def _filled(pieces: tuple[Piece, ...], shown: Any, files: _Files) -> Any:
    if len(pieces) == 1 and isinstance(pieces[0], FromFile) and pieces[0].form == JSON:
        value = files.json(pieces[0].file_id)
        return value if pieces[0].start is None else value[pieces[0].start]
    return "".join(_text(piece, shown, files) for piece in pieces)


def _text(piece: Piece, shown: Any, files: _Files) -> str:
    match piece:
        case str():
            return piece
        case Kept(start, end):
            return cast("str", shown)[start:end]
        case FromFile(file_id, form, start, end):
            return files.text(file_id)[start:end] if form == TEXT else encoded(files.bytes(file_id), form)


def _piece_json(piece: Piece) -> Json:
    match piece:
        case str():
            return piece
        case Kept(start, end):
            return [start, end]
        case FromFile(file_id, form, start, end):
            value: dict[str, Json] = {"file": file_id}
            if form != TEXT:
                value["as"] = form
            return value if start is None else value | {"from": start} | ({} if end is None else {"to": end})


def _step(step: dict[str, Any]) -> Step:
    holes = tuple(Hole(tuple(at), tuple(map(_piece, pieces))) for at, pieces in step["holes"])
    return Step(tuple(step["at"]), holes, step.get("frame"))


def _piece(piece: Any) -> Piece:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, list):
        start, end = piece
        return Kept(start, end)
    return FromFile(piece["file"], piece.get("as", TEXT), piece.get("from"), piece.get("to"))

"""Recipes that rebuild an original message from the shown message and its files, including exact base64 forms."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lossless.errors import ArchiveCorrupt, BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.model.messages import Json, JsonObject

_URL_TO_PLAIN = str.maketrans("-_", "+/")
_PLAIN_TO_URL = str.maketrans("+/", "-_")
#: `base64`, then `url` for the URL-safe alphabet, `bare` without padding, a line length and its line break.
_FORM = re.compile(r"base64(url)?( bare)?(?: (\d{1,6}) (lf|crlf))?")
_BREAKS = {"lf": "\n", "crlf": "\r\n"}


def decode_base64(text: str) -> bytes | None:
    """The bytes of base64 text in any usual form; None when it is not base64."""
    packed = "".join(text.split())
    if not packed or not packed.isascii():
        return None
    if "-" in packed or "_" in packed:
        packed = packed.translate(_URL_TO_PLAIN)
    missing = -len(packed.rstrip("=")) % 4
    if missing == 3:
        return None
    try:
        return binascii.a2b_base64(packed.rstrip("=") + "=" * missing, strict_mode=True)
    except binascii.Error:
        return None


def base64_form(text: str, data: bytes) -> str | None:
    """The name of the form in which `data` was encoded as `text`; None when no form reproduces it exactly."""
    first, newline, _ = text.partition("\n")
    lines = f" {len(first.rstrip(chr(13)))} {'crlf' if first.endswith(chr(13)) else 'lf'}" if newline else ""
    url = "url" if not {"-", "_"}.isdisjoint(text) else ""
    bare = " bare" if not text.rstrip().endswith("=") and len(data) % 3 else ""
    form = f"base64{url}{bare}{lines}"
    return form if _FORM.fullmatch(form) and encode_base64(data, form) == text else None


def encode_base64(data: bytes, form: str) -> str:
    """`data` in a form that `base64_form` named; ValueError for any other."""
    found = _FORM.fullmatch(form)
    if found is None:
        raise ValueError(f"{form!r} is no form of base64")
    url, bare, width, ending = found.groups()
    text = b64encode(data).decode("ascii")
    if url:
        text = text.translate(_PLAIN_TO_URL)
    if bare:
        text = text.rstrip("=")
    if width is None or int(width) == 0:
        return text
    size = int(width)
    return _BREAKS[ending].join(text[at : at + size] for at in range(0, len(text), size))


#: The path of a value in a document: keys and list indexes.
JsonPath: TypeAlias = tuple[str | int, ...]
#: Returns the bytes of a file by its id.
ReadFile: TypeAlias = "Callable[[str], bytes]"

TEXT_FORM, JSON_FORM = "utf-8", "json"


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The content of a file: its text or a slice of it, its JSON or one item of it, or its bytes in base64."""

    file_id: str
    #: `utf-8`, `json`, or a form of base64 (see `encodings`).
    form: str = TEXT_FORM
    start: int | None = None
    end: int | None = None


#: A text, a slice of the shown text, or the content of a file.
RecipePiece: TypeAlias = str | tuple[int, int] | FileSlice
#: A position inside a frame, and the pieces that fill it.
RecipeHole: TypeAlias = tuple[JsonPath, tuple[RecipePiece, ...]]


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """The information to undo one rewriting step."""

    at: JsonPath
    holes: tuple[RecipeHole, ...]
    frame: Json = None


def recipe_to_json(steps: Sequence[RecipeStep]) -> list[Json]:
    found: list[Json] = []
    for step in steps:
        holes: list[Json] = [[[*at], [_piece_json(piece) for piece in pieces]] for at, pieces in step.holes]
        value: dict[str, Json] = {"at": list(step.at), "holes": holes}
        found.append(value if step.frame is None else value | {"frame": step.frame})
    return found


def recipe_from_json(recipe: Json) -> tuple[RecipeStep, ...]:
    """The recipe that `recipe_to_json` was given; `BadInput` for anything else."""
    try:
        return tuple(
            RecipeStep(
                tuple(step["at"]),
                tuple((tuple(at), tuple(map(_piece, pieces))) for at, pieces in step["holes"]),
                step.get("frame"),
            )
            for step in cast("list[Any]", recipe)
        )
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise BadInput("a recipe for an original that this version cannot read") from error


def restore_document(shown: JsonObject, steps: Sequence[RecipeStep], read: ReadFile) -> dict[str, Any]:
    """The original of the document `shown`, with its key order and numbers.

    `read` returns the bytes of a file; its error for a missing one is passed on. ArchiveCorrupt when the recipe, the
    message and the files do not fit together.
    """
    document: Any = shown

    @cache
    def load(file_id: str, form: str) -> Any:
        """A file as text, as JSON, or as bytes."""
        data = read(file_id)
        if form == TEXT_FORM:
            return data.decode("utf-8", "surrogatepass")
        return json.loads(data) if form == JSON_FORM else data

    try:
        for step in reversed(steps):
            document = _undone(document, step, load)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveCorrupt("an original cannot be rebuilt: its recipe, its message and its files differ") from error
    return cast("dict[str, Any]", document)


def _undone(document: Any, step: RecipeStep, load: Callable[[str, str], Any]) -> Any:
    before = value_at(document, step.at)
    value = _copied(step.frame)
    for at, pieces in step.holes:
        filled = _filled(pieces, before, load)
        if at:
            value_at(value, at[:-1])[at[-1]] = filled
        else:
            value = filled
    return with_value(document, step.at, value)


def value_at(document: Any, path: JsonPath) -> Any:
    for key in path:
        document = document[key]
    return document


def with_value(document: Any, path: JsonPath, value: Any) -> Any:
    """A new document with another value at a path; everything else is shared, nothing is modified."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        return {k: with_value(v, rest, value) if k == key else v for k, v in document.items()}
    return [with_value(v, rest, value) if n == key else v for n, v in enumerate(document)]


def _copied(value: Json) -> Any:
    """A copy whose objects and lists may be modified."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_copied(inner) for inner in value]
    return value


def _filled(pieces: tuple[RecipePiece, ...], shown: Any, load: Callable[[str, str], Any]) -> Any:
    if len(pieces) == 1 and isinstance(pieces[0], FileSlice) and pieces[0].form == JSON_FORM:
        value = load(pieces[0].file_id, JSON_FORM)
        return value if pieces[0].start is None else value[pieces[0].start]
    texts: list[str] = []
    for piece in pieces:
        match piece:
            case str():
                texts.append(piece)
            case (start, end):
                texts.append(shown[start:end])
            case FileSlice(file_id, form, start, end):
                data = load(file_id, TEXT_FORM if form == TEXT_FORM else "bytes")
                texts.append(data[start:end] if form == TEXT_FORM else encode_base64(data, form))
    return "".join(texts)


def _piece_json(piece: RecipePiece) -> Json:
    match piece:
        case str():
            return piece
        case (start, end):
            return [start, end]
        case FileSlice(file_id, form, start, end):
            value: dict[str, Json] = {"file": file_id}
            if form != TEXT_FORM:
                value["as"] = form
            return value if start is None else value | {"from": start} | ({} if end is None else {"to": end})


def _piece(piece: Any) -> RecipePiece:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, list):
        start, end = piece
        return start, end
    return FileSlice(piece["file"], piece.get("as", TEXT_FORM), piece.get("from"), piece.get("to"))

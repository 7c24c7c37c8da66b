"""Recipes that rebuild an original message from the shown message and its files, including exact base64 forms."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lossless.errors import ArchiveCorrupt, BadInput

if TYPE_CHECKING:
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
ReadFile: TypeAlias = "Callable[[str], bytes]"

TEXT_FORM, JSON_FORM = "utf-8", "json"


#: A piece of a recipe: a text, a slice `[start, end]` of the shown text, or the content of a file (`file_slice`).
RecipePiece: TypeAlias = "str | list[int] | dict[str, Any]"
#: A position inside a frame, and the pieces that fill it.
RecipeHole: TypeAlias = tuple[JsonPath, Sequence[RecipePiece]]
#: The information to undo one rewriting step, as it is stored.
RecipeStep: TypeAlias = dict[str, Any]


def file_slice(file_id: str, form: str = TEXT_FORM, start: int | None = None, end: int | None = None) -> dict[str, Any]:
    """The content of a file: its text or a slice of it, its JSON or one item of it, or its bytes in base64.

    The form is `utf-8`, `json`, or one of `base64_form`.
    """
    more = {"as": None if form == TEXT_FORM else form, "from": start, "to": end}
    return {"file": file_id} | {name: value for name, value in more.items() if value is not None}


def recipe_step(at: JsonPath, holes: Sequence[RecipeHole], frame: Json = None) -> RecipeStep:
    step = {"at": [*at], "holes": [[[*hole], [*pieces]] for hole, pieces in holes]}
    return step if frame is None else step | {"frame": frame}


def check_recipe(recipe: Json) -> list[RecipeStep]:
    """The steps of a stored recipe; `BadInput` for anything else."""
    steps = cast("list[RecipeStep]", recipe)
    try:
        for step in steps:
            iter(step["at"])
            for _, pieces in step["holes"]:
                _ = [piece["file"] for piece in pieces if not isinstance(piece, str | list)]
    except (TypeError, KeyError, ValueError) as error:
        raise BadInput("a recipe for an original that this version cannot read") from error
    return steps


def restore_document(shown: JsonObject, steps: Sequence[RecipeStep], read: ReadFile) -> dict[str, Any]:
    """The original of the document `shown`, with its key order and numbers.

    `read` returns the bytes of a file; its error for a missing one is passed on. ArchiveCorrupt when the recipe, the
    message and the files do not fit together.
    """
    document: Any = shown

    @cache
    def load(file_id: str, form: str) -> Any:
        data = read(file_id)
        if form == TEXT_FORM:
            return data.decode("utf-8", "surrogatepass")
        return json.loads(data) if form == JSON_FORM else data

    try:
        for step in reversed(steps):
            before = value_at(document, step["at"])
            value = deepcopy(step.get("frame"))
            for at, pieces in step["holes"]:
                filled = _filled(pieces, before, load)
                if at:
                    value_at(value, at[:-1])[at[-1]] = filled
                else:
                    value = filled
            document = with_value(document, step["at"], value)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveCorrupt("an original cannot be rebuilt: its recipe, its message and its files differ") from error
    return cast("dict[str, Any]", document)


def value_at(document: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        document = document[key]
    return document


def with_value(document: Any, path: Sequence[str | int], value: Any) -> Any:
    """A new document with another value at a path; everything else is shared, nothing is modified."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        return {k: with_value(v, rest, value) if k == key else v for k, v in document.items()}
    return [with_value(v, rest, value) if n == key else v for n, v in enumerate(document)]


def _filled(pieces: list[RecipePiece], shown: Any, load: Callable[[str, str], Any]) -> Any:
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        elif isinstance(piece, list):
            texts.append(shown[piece[0] : piece[1]])
        else:
            form, start = piece.get("as", TEXT_FORM), piece.get("from")
            if form == JSON_FORM and len(pieces) == 1:
                value = load(piece["file"], JSON_FORM)
                return value if start is None else value[start]
            data = load(piece["file"], TEXT_FORM if form == TEXT_FORM else "bytes")
            texts.append(data[start : piece.get("to")] if form == TEXT_FORM else encode_base64(data, form))
    return "".join(texts)

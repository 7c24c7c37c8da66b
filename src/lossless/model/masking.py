"""Texts that must not be kept: how they are cut out of a message, and how they are known again without their words.

What was forgotten is remembered by its length, a keyed sum of its characters (16 bits, quick to roll along a text) and
a keyed digest, which settles it. Whoever has the archive can test a guess against these; nobody can read the words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import accumulate, repeat
from operator import and_, sub
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadInput
from lossless.model.messages import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.messages import Json, Part

#: What stands where something was forgotten.
FORGOTTEN = "[forgotten]"
#: Shorter phrases stand in too many words.
MIN_CHARS = 3
_MASK = 0xFFFF
_DIGEST_BYTES = 16
#: Texts known to hold nothing, by digest.
_REMEMBERED = 16_384

#: Takes a text and gives it back without what must not be kept; the same object when there is nothing in it.
Cut: TypeAlias = Callable[[str], str]

#: Values under these keys name things of the format, such as kinds, ids, models: they are no words.
_NAMES = frozenset({
    "role", "type", "id", "tool_call_id", "call_id", "tool_use_id", "toolCallId", "api", "provider", "model",
    "responseModel", "responseId", "response_id", "stopReason", "stop_reason", "finish_reason", "stop_sequence",
    "status", "media_type", "mimeType", "mime_type", "timestamp", "createdAt", "created_at", "object", "phase",
})  # fmt: skip
#: Beside one of these, `name` is that of a tool.
_CALLS = frozenset({"arguments", "input", "tool_call_id", "call_id", "tool_use_id", "toolCallId", "toolName"})
#: What calls are made with: everything in it is words, its keys, too.
_FREE = frozenset({"arguments", "input", "args"})
#: Proofs that words are a model's own; other words need another proof, so that these go.
_PROOFS = frozenset({"signature", "thinkingSignature", "textSignature", "thoughtSignature", "encrypted_content"})
_MEDIA = frozenset({"media_type", "mimeType", "mime_type", "format"})


def forms(phrase: str) -> tuple[str, ...]:
    """The ways in which a phrase stands in texts, the longest first: as it is, and inside of JSON, once and twice.

    >>> forms("a b c"), len(forms('say "hi"'))
    (('a b c',), 3)
    """
    spelled = {unicodedata.normalize(form, phrase) for form in ("NFC", "NFD")} | {phrase}
    found = set(spelled)
    for _ in range(2):
        spelled = {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in spelled for ascii in (False, True)}
        found |= spelled
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def check_phrase(phrase: str) -> str:
    """A phrase that can be forgotten; BadInput for one that stands everywhere, or in the mark that would replace it."""
    if len(phrase.strip()) < (MIN_CHARS if phrase.isascii() else MIN_CHARS - 1):
        raise BadInput(f"a phrase to forget needs at least {MIN_CHARS} characters; a shorter one is in too many words")
    if phrase in FORGOTTEN or FORGOTTEN in phrase:
        raise BadInput(f"{FORGOTTEN} is what stands where something was forgotten; it cannot be forgotten itself")
    try:
        phrase.encode()
    except UnicodeEncodeError:
        raise BadInput("the phrase holds half a surrogate pair, which is no text") from None
    return phrase


def cut_words(phrases: Sequence[str]) -> Cut:
    """Cuts phrases out, in their order, wherever they stand in one of their forms."""
    patterns = [re.compile("|".join(map(re.escape, forms(phrase)))) for phrase in phrases]

    def cut(text: str) -> str:
        for pattern in patterns:
            if pattern.search(text):
                text = pattern.sub(FORGOTTEN, text)
        return text

    return cut


def cut_loosely(phrases: Sequence[str]) -> Cut:
    """Cuts phrases out whatever their case and the blanks between their words: as a model repeats them."""
    loose = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    pattern = re.compile("|".join(sorted(loose, key=len, reverse=True)), re.IGNORECASE)
    return lambda text: pattern.sub(FORGOTTEN, text) if pattern.search(text) else text


# --- known without their words ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered of a text: its length, the keyed sum of its characters, and a keyed digest."""

    length: int
    roll: int
    digest: bytes


class Marker:
    """Makes marks, and finds the texts that they stand for, with the key of one archive."""

    def __init__(self, key: bytes) -> None:
        self._key, self._weights = key, _Weights(key)

    def digest(self, data: bytes) -> bytes:
        """Sixteen bytes for some data."""
        return blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest()

    def mark(self, text: str) -> Mark:
        """What is remembered of a text."""
        return Mark(len(text), sum(map(self._weights.__getitem__, text)) & _MASK, self._digest(text))

    def _digest(self, text: str) -> bytes:
        return self.digest(text.encode("utf-8", "surrogatepass"))

    def spans(self, text: str, marks: Mapping[int, Mapping[int, frozenset[bytes]]]) -> list[tuple[int, int]]:
        """Where texts stand that have one of these marks (by length and sum), leftmost first, then the longest."""
        lengths = [length for length in marks if length <= len(text)]
        if not lengths:
            return []
        sums = list(accumulate(map(self._weights.__getitem__, text), initial=0))
        found: list[tuple[int, int]] = []
        for length in lengths:
            wanted = marks[length]
            rolls = map(and_, map(sub, sums[length:], sums), repeat(_MASK))
            places = [(n, roll) for n, roll in enumerate(rolls) if roll in wanted]
            found += [(n, n + length) for n, roll in places if self._digest(text[n : n + length]) in wanted[roll]]
        return sorted(found, key=lambda span: (span[0], -span[1]))


class _Weights(dict[str, int]):
    """A number for each character, which nobody knows without the key."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, character: str) -> int:
        digest = blake2b(character.encode("utf-8", "surrogatepass"), key=self._key, digest_size=2).digest()
        self[character] = weight = int.from_bytes(digest)
        return weight


class Cutter:
    """Cuts out texts of which only marks are left; each round of forgetting in its turn, as it was done."""

    def __init__(self, marker: Marker, rounds: Sequence[Sequence[Mark]]) -> None:
        self._marker = marker
        self._rounds = [_by_length(some) for some in rounds]
        self._all = _by_length([mark for some in rounds for mark in some])
        self._clean: OrderedDict[bytes, None] = OrderedDict()

    def __call__(self, text: str) -> str:
        """The text without them; the same object when it holds none."""
        print_ = self._marker.digest(text.encode("utf-8", "surrogatepass"))
        if print_ in self._clean:
            return text
        if not self._marker.spans(text, self._all):
            self._clean[print_] = None
            if len(self._clean) > _REMEMBERED:
                self._clean.popitem(last=False)
            return text
        for marks in self._rounds:
            text = _without(text, self._marker.spans(text, marks))
        return text


def _by_length(marks: Iterable[Mark]) -> dict[int, dict[int, frozenset[bytes]]]:
    found: dict[int, dict[int, frozenset[bytes]]] = {}
    for mark in marks:
        rolls = found.setdefault(mark.length, {})
        rolls[mark.roll] = rolls.get(mark.roll, frozenset()) | {mark.digest}
    return found


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in spans:
        if start >= end:
            pieces += [text[end:start], FORGOTTEN]
            end = stop
    return "".join([*pieces, text[end:]]) if pieces else text


# --- messages -----------------------------------------------------------------------------------------------


def cut_json(value: Json, cut: Cut, *, is_free: bool = False) -> Any:
    """A foreign message, or a piece of one, without what must not be kept; the same object when it holds none.

    What makes the format (kinds, roles, ids, names of tools) stays; `is_free` says that there is no such thing in it.
    """
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, Mapping):
        return _cut_object(value, cut, is_free=is_free)
    if isinstance(value, list | tuple):
        items = [cut_json(item, cut, is_free=is_free) for item in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    return value


def _cut_object(value: Mapping[str, Json], cut: Cut, *, is_free: bool) -> Mapping[str, Json]:
    made: dict[str, Json] = {}
    is_other = False
    for key, item in value.items():
        is_name = not is_free and isinstance(item, str) and _is_name(key, value)
        fresh = item if is_name else cut_json(item, cut, is_free=is_free or key in _FREE)
        name = cut(key) if is_free else key
        is_other |= fresh is not item or name is not key
        made[name] = fresh
    if not is_other:
        return value
    return made if is_free else {key: item for key, item in made.items() if key not in _PROOFS}


def _is_name(key: str, beside: Mapping[str, Json]) -> bool:
    """Whether a value is no words: a name of the format, of a tool, or the bytes of a picture."""
    if key in _NAMES:
        return True
    if key in ("name", "toolName"):
        return not _CALLS.isdisjoint(beside)
    if key == "data":
        return not _MEDIA.isdisjoint(beside)
    value = beside[key]
    return key == "url" and isinstance(value, str) and value.startswith("data:")


def cut_parts(message: Message, cut: Cut) -> Message:
    """A message that was made of parts without what must not be kept; the same object when it holds none."""
    content = cut(message.content)
    parts = tuple(map(partial(_cut_part, cut=cut), message.parts))
    if content is message.content and all(one is other for one, other in zip(parts, message.parts, strict=True)):
        return message
    return replace(message, content=content, parts=parts, tokens=-1)


def _cut_part(part: Part, cut: Cut) -> Part:
    match part:
        case Text(text):
            return part if (fresh := cut(text)) is text else Text(fresh)
        case Reasoning(text):
            return part if (fresh := cut(text)) is text else Reasoning(fresh)
        case ToolCall(id_, name, input_):
            made = cut_json(input_, cut, is_free=True)
            return part if made is input_ else ToolCall(id_, name, made)
        case ToolResult(_, _, text):
            return part if (fresh := cut(text)) is text else replace(part, text=fresh)
        case File(raw) | Opaque(raw):
            return part if (made := cut_json(raw, cut)) is raw else replace(part, raw=made)


def emptied(message: Message) -> Message:
    """What is left of a message all of whose words are forgotten: who spoke, and which calls it made or answered."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append(ToolCall(part.id, part.name, {}))
        elif isinstance(part, ToolResult):
            parts.append(ToolResult(part.call_id, part.name, FORGOTTEN, part.is_error))
    return Message(
        message.role,
        FORGOTTEN,
        tuple(parts),
        event_key=message.event_key,
        created_at=message.created_at,
        identity=message.identity,
    )

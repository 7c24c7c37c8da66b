"""Text that must not be kept: secrets recognised by their pattern, and forgotten phrases recognised by keyed marks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from importlib.resources import files
from itertools import accumulate, repeat
from operator import and_, sub
from typing import Any, TypeAlias

from lossless.errors import BadInput
from lossless.model.js_json import is_encodable
from lossless.model.messages import File, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

#: Replaces forgotten text.
FORGOTTEN = "[forgotten]"
#: Shorter phrases occur inside too many words.
MIN_CHARS = 3
_MASK = 0xFFFF
_DIGEST_BYTES = 16
#: How many digests of texts with nothing to mask are remembered.
_REMEMBERED = 16_384

#: Returns a text without what must not be kept; the same object when nothing was removed.
CutText: TypeAlias = Callable[[str], str]

#: A keyed mark of a text: its length, the keyed sum of its characters, and a keyed digest.
PhraseMark: TypeAlias = tuple[int, int, bytes]

#: Values under these keys are identifiers of the format (types, ids, models), not words.
_NAMES = frozenset({
    "role", "type", "id", "tool_call_id", "call_id", "tool_use_id", "toolCallId", "api", "provider", "model",
    "responseModel", "responseId", "response_id", "stopReason", "stop_reason", "finish_reason", "stop_sequence",
    "status", "media_type", "mimeType", "mime_type", "timestamp", "createdAt", "created_at", "object", "phase",
})  # fmt: skip
#: Next to one of these keys, `name` is a tool's name.
_CALLS = frozenset({"arguments", "input", "tool_call_id", "call_id", "tool_use_id", "toolCallId", "toolName"})
#: Arguments of calls: everything in them is words, keys included.
_FREE = frozenset({"arguments", "input", "args"})
#: Signatures over a model's words; removed when the words change.
_PROOFS = frozenset({"signature", "thinkingSignature", "textSignature", "thoughtSignature", "encrypted_content"})
_MEDIA = frozenset({"media_type", "mimeType", "mime_type", "format"})


def phrase_forms(phrase: str) -> tuple[str, ...]:
    """The spellings of a phrase in texts, longest first: verbatim, JSON-escaped once, and twice.

    >>> phrase_forms("a b c"), len(phrase_forms('say "hi"'))
    (('a b c',), 3)
    """
    spelled = {unicodedata.normalize(form, phrase) for form in ("NFC", "NFD")} | {phrase}
    found = set(spelled)
    for _ in range(2):
        spelled = {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in spelled for ascii in (False, True)}
        found |= spelled
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def check_phrase(phrase: str) -> str:
    """Returns a phrase that can be forgotten; BadInput for one that occurs everywhere, or in the replacement mark."""
    if len(phrase.strip()) < (MIN_CHARS if phrase.isascii() else MIN_CHARS - 1):
        raise BadInput(f"a phrase to forget needs at least {MIN_CHARS} characters; a shorter one is in too many words")
    if phrase in FORGOTTEN or FORGOTTEN in phrase:
        raise BadInput(f"{FORGOTTEN} is the replacement for forgotten text; it cannot be forgotten itself")
    if not is_encodable(phrase):
        raise BadInput("the phrase contains a lone surrogate, which is not valid text")
    return phrase


def exact_cutter(phrases: Sequence[str]) -> CutText:
    """Removes phrases, in their order, in any of their spellings."""
    patterns = [re.compile("|".join(map(re.escape, phrase_forms(phrase)))) for phrase in phrases]

    def cut(text: str) -> str:
        for pattern in patterns:
            if pattern.search(text):
                text = pattern.sub(FORGOTTEN, text)
        return text

    return cut


def loose_cutter(phrases: Sequence[str]) -> CutText:
    """Removes phrases regardless of case and white space, as a model may repeat them."""
    loose = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    pattern = re.compile("|".join(sorted(loose, key=len, reverse=True)), re.IGNORECASE)
    return lambda text: pattern.sub(FORGOTTEN, text) if pattern.search(text) else text


class PhraseMarker:
    """Makes marks with one archive's key, and finds texts that match them."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        #: A number per character that is unknown without the key.
        self._weights: dict[str, int] = {}

    def digest(self, data: bytes) -> bytes:
        """Sixteen keyed bytes for some data."""
        return blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest()

    def mark(self, text: str) -> PhraseMark:
        return len(text), sum(self._weigh(text)) & _MASK, self._digest(text)

    def _digest(self, text: str) -> bytes:
        return self.digest(text.encode("utf-8", "surrogatepass"))

    def _weigh(self, text: str) -> Iterator[int]:
        for character in set(text).difference(self._weights):
            digest = blake2b(character.encode("utf-8", "surrogatepass"), key=self._key, digest_size=2).digest()
            self._weights[character] = int.from_bytes(digest)
        return map(self._weights.__getitem__, text)

    def spans(self, text: str, marks: Mapping[int, Mapping[int, frozenset[bytes]]]) -> list[tuple[int, int]]:
        """Where texts with one of these marks (by length and sum) occur: leftmost first, then longest."""
        lengths = [length for length in marks if length <= len(text)]
        if not lengths:
            return []
        sums = list(accumulate(self._weigh(text), initial=0))
        found: list[tuple[int, int]] = []
        for length in lengths:
            wanted = marks[length]
            rolls = map(and_, map(sub, sums[length:], sums), repeat(_MASK))
            places = [(n, roll) for n, roll in enumerate(rolls) if roll in wanted]
            found += [(n, n + length) for n, roll in places if self._digest(text[n : n + length]) in wanted[roll]]
        return sorted(found, key=lambda span: (span[0], -span[1]))


def mark_cutter(marker: PhraseMarker, rounds: Sequence[Sequence[PhraseMark]]) -> CutText:
    """Removes texts of which only marks are kept; rounds of forgetting apply in their order.

    What it returns gives back the same object for a text that has none of them.
    """
    by_round = [_by_length(some) for some in rounds]
    of_all = _by_length([mark for some in rounds for mark in some])
    clean: OrderedDict[bytes, None] = OrderedDict()

    def cut(text: str) -> str:
        print_ = marker.digest(text.encode("utf-8", "surrogatepass"))
        if print_ in clean:
            return text
        if not marker.spans(text, of_all):
            clean[print_] = None
            if len(clean) > _REMEMBERED:
                clean.popitem(last=False)
            return text
        for marks in by_round:
            text = _without(text, marker.spans(text, marks))
        return text

    return cut


def _by_length(marks: Iterable[PhraseMark]) -> dict[int, dict[int, frozenset[bytes]]]:
    found: dict[int, dict[int, frozenset[bytes]]] = {}
    for length, roll, digest in marks:
        rolls = found.setdefault(length, {})
        rolls[roll] = rolls.get(roll, frozenset()) | {digest}
    return found


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in spans:
        if start >= end:
            pieces += [text[end:start], FORGOTTEN]
            end = stop
    return "".join([*pieces, text[end:]]) if pieces else text


def cut_json(value: Json, cut: CutText, *, is_free: bool = False) -> Any:
    """A foreign message, or a part of one, without what must not be kept; the same object when nothing was removed.

    Format identifiers (types, roles, ids, tool names) stay; with `is_free` everything counts as words.
    """
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, list | tuple):
        items = [cut_json(item, cut, is_free=is_free) for item in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    if not isinstance(value, Mapping):
        return value
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


def _is_name(key: str, siblings: Mapping[str, Json]) -> bool:
    """Whether a value is not words: a format identifier, a tool's name, or image bytes."""
    if key in _NAMES:
        return True
    if key in ("name", "toolName"):
        return not _CALLS.isdisjoint(siblings)
    if key == "data":
        return not _MEDIA.isdisjoint(siblings)
    value = siblings[key]
    return key == "url" and isinstance(value, str) and value.startswith("data:")


def cut_parts(message: Message, cut: CutText) -> Message:
    """A message built from parts without what must not be kept; the same object when nothing was removed."""
    content = cut(message.content)
    parts = tuple(map(partial(_cut_part, cut=cut), message.parts))
    if content is message.content and all(one is other for one, other in zip(parts, message.parts, strict=True)):
        return message
    return replace(message, content=content, parts=parts, tokens=-1)


def _cut_part(part: Part, cut: CutText) -> Part:
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


def empty_message(message: Message) -> Message:
    """A message whose words are all forgotten: it keeps the role and the ids of its calls and results."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append(ToolCall(part.id, part.name, {}))
        elif isinstance(part, ToolResult):
            parts.append(ToolResult(part.call_id, part.name, FORGOTTEN, part.is_error))
    return Message(
        message.role, FORGOTTEN, tuple(parts), event_key=message.event_key, created_at=message.created_at,
        identity=message.identity,
    )  # fmt: skip


#: The prefix of every mask.
MASK_PREFIX = "[redacted:"


def mask_for(kind: str) -> str:
    return f"{MASK_PREFIX}{kind}]"


def mask_secrets(text: str) -> str:
    """The text with everything that looks like a secret masked; the same object when nothing does.

    >>> mask_secrets("git clone https://me:hunter22@example.org/a.git")
    'git clone https://me:[redacted:url-password]@example.org/a.git'
    """
    for kind, pattern, *signs in SECRET_PATTERNS:
        if any(sign in text for sign in signs):
            fresh = re.sub(pattern, partial(_masked, mask_for(kind)), text)
            text = text if fresh == text else fresh
    return text


def _masked(mask: str, found: re.Match[str]) -> str:
    if "it" not in found.re.groupindex:
        return mask
    start, end = (place - found.start() for place in found.span("it"))
    return f"{found[0][:start]}{mask}{found[0][end:]}"


#: Kinds of secrets, most specific first: the kind, its pattern, and its signs: a text without any cannot contain one.
SECRET_PATTERNS = [
    one.splitlines()
    for one in files(__package__).joinpath("secret_patterns.txt").read_text(encoding="utf-8").split("\n\n")
]

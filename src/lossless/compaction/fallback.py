"""The last resort: a source cut short by rule, without sentences that would order a model about.

Its markers are those that `doctor` looks for, so such a summary can be found and written anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIRECTIVE_OMITTED = "[LCM fallback summary omitted directive-shaped untrusted content]."
DIRECTIVE_MARKER = "[LCM fallback summary; directive-shaped untrusted content omitted]"
FALLBACK_MARKER = "[LCM fallback summary; truncated for context management]"
TRUNCATED_PREFIX = "[Truncated from "

#: Orders against a model's own instructions: nobody's history needs them.
_OVERRIDE = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|overrule)\b[^.!?\n]{0,60}?"
    r"(?:\b(?:previous|prior|above|earlier|preceding|existing|system|developer|safety|your)\b[^.!?\n]{0,40}?"
    r"\b(?:instructions?|prompts?|guidelines?|directives?|rules)\b"
    r"|\b(?:all|any|every|the)\b[^.!?\n]{0,20}?\b(?:instruction|guideline|directive)s?\b)"
    r"|\b(?:reveal|print|show|repeat|output|leak|display|expose|tell)\b[^.!?\n]{0,40}?"
    r"\b(?:system|developer|hidden|initial|secret|your)\s+(?:prompt|instruction)s?\b"
    r"|\bjail\s?br(?:eak|eaks|eaking|oken)\b|\bdo anything now\b|\bDAN mode\b"
    r"|\b(?:act|behave|respond|answer)\s+as\s+DAN\b"
    r"|\b(?:enable|enter|activate)\s+(?:developer|god|admin)\s+mode\b"
    r"|\bignorier(?:e|en|t|st)\b[^.!?\n]{0,40}?\b(?:Anweisung|Instruktion)\w*"
    r"|\bignore[zr]?\s+(?:toutes\s+)?(?:les|vos|tes|ces)\b[^.!?\n]{0,20}?\b(?:instructions|consignes)\b"
    r"|\bignor[ae]\b[^.!?\n]{0,40}?\b(?:instrucciones|instruções|istruzioni)\b"
    r"|(?:忽略|无视|無視|忘记|忘掉)[^。！？\n]{0,12}(?:指令|指示|提示|规则|说明)"
    r"|(?:以前|上記|これまで)の[^。！？\n]{0,8}(?:指示|命令|ルール)を無視",
    re.IGNORECASE,
)
#: Orders about behaviour to come: an attack in pasted text, a wish in a user's own words.
_BEHAVIOUR = re.compile(
    r"\byou are now\b|\bfrom now on\b|\bfrom this point (?:on|forward)\b|\bpretend (?:to be|that you)\b"
    r"|\b(?:reply|respond|answer|output)\s+(?:only|solely|exclusively)\s+(?:with|in|as)\b"
    r"|\b(?:only|solely)\s+(?:reply|respond|answer|output)\s+(?:with|in|as)\b",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(
    r"\W*(?:(?:and|then|now|instead|just|please|also|you (?:must|will|shall|should)|do not|don't)[\s,]+){0,3}"
    r"(?:reply|respond|answer|say|print|output|write|send|run|execute|delete|remove|tell|always|never|call|use"
    r"|visit|open|click|download|upload|email|post|transfer|reveal|return|repeat|act|obey|follow|comply)\b",
    re.IGNORECASE,
)
#: Every directive holds one of these words: text without them needs no closer look.
_WORDS = """
    ignore disregard forget override bypass overrule prompt prompts instruction instructions jail jailbreak
    jailbreaks jailbreaking jailbroken anything dan mode now point pretend only solely exclusively ignorez ignorer
    ignora ignoriere ignorieren ignoriert ignorierst 忽略 无视 無視 忘记 忘掉"""
DIRECTIVE_WORDS = frozenset(_WORDS.split())
_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")


def is_override(sentence: str) -> bool:
    """Whether a sentence tells a model to drop its instructions, reveal them or break its rules."""
    return _OVERRIDE.search(sentence) is not None


def is_directive(sentence: str) -> bool:
    """Whether a sentence is shaped like an order to the model that reads it."""
    return is_override(sentence) or _BEHAVIOUR.search(sentence) is not None


def is_imperative(sentence: str) -> bool:
    """Whether a sentence opens with a verb of command: what follows a directive and belongs to it."""
    return _IMPERATIVE.match(sentence) is not None


def without_directives(text: str) -> tuple[str, bool]:
    """Text whose directive-shaped sentences are replaced, once, by a note; and whether there were any."""
    return _without(text, is_directive)


def without_overrides(text: str) -> str:
    """Text without the directives that nobody's history needs; wishes about behaviour stay."""
    return _without(text, is_override)[0]


def _without(text: str, is_unwanted: Callable[[str], bool]) -> tuple[str, bool]:
    kept: list[str] = []
    omitted = previous = False
    for sentence in _sentences(text):
        previous = is_unwanted(sentence) or (previous and is_imperative(sentence))
        if not previous:
            kept.append(sentence)
        elif not omitted:
            kept.append(DIRECTIVE_OMITTED + (sentence[len(sentence.rstrip()) :] or " "))
        omitted = omitted or previous
    return ("".join(kept).strip(), True) if omitted else (text, False)


def truncated(text: str, max_tokens: int) -> str:
    """Text without directives, of at most `max_tokens`, its closing note included; short text as it is.

    Empty when the notes alone take all the room.

    >>> truncated("short text", 512)
    'short text'
    """
    kept, omitted = without_directives(text)
    notes = [DIRECTIVE_MARKER] if omitted else []
    whole = "\n".join([kept, *notes])
    if estimate_tokens(whole) <= max_tokens:
        return whole
    notes.append(f"{TRUNCATED_PREFIX}{estimate_tokens(text)} tokens]")
    ending = "\n" + "\n".join(notes)
    words = cut_to_tokens(kept, max_tokens - estimate_tokens(ending)).rstrip()
    return words + ending if words else ""


def fallback(text: str, max_tokens: int, source_tokens: int | None = None) -> str | None:
    """The truncated source, smaller than the source; None when that leaves nothing of it.

    `source_tokens` is what the sources weigh in the context, when that is not the text's own size.
    """
    weight = estimate_tokens(text) if source_tokens is None else source_tokens
    return truncated(text, min(max_tokens, weight - 1)).strip() or None


def _sentences(text: str) -> Iterator[str]:
    """Sentences with the space after them: joined, they are the text."""
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        yield text[start : boundary.end()]
        start = boundary.end()
    if start < len(text):
        yield text[start:]

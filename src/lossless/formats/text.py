"""The words in a message's content: what people read and search.

A string is its own words. Lists give the words of their items, objects those of the first field that has some.
Thinking and tool blocks have none, except the reference that stands for a tool's output in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.model.js_json import parse, stringify

if TYPE_CHECKING:
    from collections.abc import Iterable

REASONING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
CALL_TYPES = frozenset(("tool_use", "toolUse", "tool-use", "toolCall", "functionCall", "function_call"))
RESULT_TYPES = frozenset(("tool_result", "toolResult", "function_call_output"))

#: Blocks that say nothing; `tool` is a call or a result, whoever wrote it.
_SILENT_TYPES = REASONING_TYPES | CALL_TYPES | RESULT_TYPES | {"tool"}
_SPOKEN = ("text", "transcript", "transcription", "message", "summary")
_SEQUENCES = ("segments", "utterances", "paragraphs", "alternatives", "words", "items", "results")
_WRAPPERS = ("content", "output", "result", "payload", "data", "value")
#: Where words may be found, best first, and whether only a list may hold them there.
_PROBES = tuple((key, key in _SEQUENCES) for key in (*_SPOKEN, *_SEQUENCES, *_WRAPPERS))
#: Values below this many levels are not looked at.
_DEEPEST = 6
_JSON_SPACE = " \t\n\r"
_JSON_START = frozenset(_JSON_SPACE + "{[")


def content_text(content: Any) -> str:
    """The words of any content: a string, blocks or whatever else; its JSON text when there are none."""
    if isinstance(content, str):
        return _words_or_whole(content)
    found = extract(content)
    return fallback_text(content) if found is None else found


def fallback_text(content: Any) -> str:
    """What stands for content without words: its JSON text; nothing for null and for blocks that are all silent.

    A blank text beside thinking or calls says nothing either: thinking is never text.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        spoken = [block for block in content if not _is_silent(block)]
        if not spoken or (len(spoken) < len(content) and all(map(_is_blank_text, spoken))):
            return ""
    return stringify(content)


def extract(value: Any, depth: int = 0) -> str | None:
    """The words in a value that lies `depth` levels down in a content; None when there are none."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return None if is_blank(value) else value
    if isinstance(value, list):
        return join_texts(extract(item, depth + 1) for item in value)
    if not isinstance(value, dict) or (_is_silent(value) and value.get("toolOutputExternalized") is not True):
        return None
    for key, is_list in _PROBES:
        inner = value.get(key)
        if inner is None or (is_list and not isinstance(inner, list)):
            continue
        found = extract(inner, depth + 1)
        if found is not None:
            return found
    return None


def join_texts(texts: Iterable[str | None]) -> str | None:
    """The texts that are not blank, a line break between them; None when there is none."""
    said = [text for text in texts if text is not None and not is_blank(text)]
    return "\n".join(said) if said else None


def is_plain(text: str) -> bool:
    """Whether a string is surely no JSON object or list, from its first character."""
    return text[:1] not in _JSON_START


def is_blank(text: str) -> bool:
    """Whether there is nothing to read."""
    return not text or text.isspace()


def _words_or_whole(text: str) -> str:
    """The words inside a string that is a JSON object or list and has some; every other string as it is."""
    if is_plain(text):
        return text
    bare = text.strip(_JSON_SPACE)
    if bare[:1] + bare[-1:] not in ("{}", "[]"):
        return text
    try:
        found = extract(parse(bare))
    except ValueError:
        return text
    return text if found is None else found


def _is_blank_text(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return isinstance(text, str) and is_blank(text)


def _is_silent(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind in _SILENT_TYPES

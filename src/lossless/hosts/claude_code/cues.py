"""A short word beside a prompt: names in it that were spoken of before the compaction, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How much of a prompt is looked at; a pasted log is not a question.
_PROMPT_CHARS = 20_000
_MOST = 5
#: A name in more messages than this leads nowhere; of the others so many are told.
MAX_MESSAGES, _PLACES = 12, 3
#: How many names of a prompt are looked up in the archive.
_LOOKED_UP = 12
_NAME = re.compile(r"[\w~][\w./@+-]{2,79}")
#: What a name looks like that nobody has written down: snake_case, a/path, ERR-4597, file.py, camelCase.
_TELLING = re.compile(
    r"\w*[^\W_]_[^\W_].*|.*\w/\w.*|[A-Za-z]{2,12}-\d{2,12}|[\w-]+\.(?:[a-z]{1,5}|[a-z]\w{1,3})|[A-Za-z]*[a-z0-9][A-Z][a-z0-9]\w*"
)


def prompt_cue(prompt: str, known: dict[str, object]) -> str:
    """What the archive has about names in a prompt; '' when there is nothing to say."""
    names = known.get("names")
    written = names if isinstance(names, dict) else {}
    words = dict.fromkeys(word.rstrip(".-/+") for word in _NAME.findall(prompt[:_PROMPT_CHARS]))
    found = {word: ids for word in words if isinstance(ids := written.get(word), str)}
    if len(found) < _MOST:
        found |= _looked_up([word for word in words if word not in found and looks_like_name(word)][:_LOOKED_UP], known)
    if not found:
        return ""
    told = [word for word in words if word in found][:_MOST]
    listed = "; ".join(f"{name} ({found[name]})" for name in told)
    return (
        f"Spoken of earlier in this session, before its context was compacted: {listed}. "
        "lcm_describe opens these messages word for word; lcm_recall finds more."
    )


def looks_like_name(word: str) -> bool:
    """Whether a word is a name by its looks.

    >>> [looks_like_name(word) for word in ("MAX_RETRIES", "src/a.py", "ERR-4597", "a.toml", "parseUrl")]
    [True, True, True, True, True]
    >>> [looks_like_name(word) for word in ("Hello", "well-known", "a_b")]
    [False, False, False]
    """
    return len(word) >= 4 and _TELLING.fullmatch(word) is not None


def message_references(message_ids: Sequence[int]) -> str:
    """The first of some messages, as the tools open them."""
    return ", ".join(f"msg#{id_}" for id_ in message_ids[:_PLACES])


def _looked_up(names: list[str], known: dict[str, object]) -> dict[str, str]:
    """Where the archive has names that were not written down, by its index, up to the compaction."""
    archive, conversation_id, through = known.get("archive"), known.get("conversationId"), known.get("through")
    if not names or not isinstance(archive, str):
        return {}
    if not isinstance(conversation_id, int) or not isinstance(through, int):
        return {}
    from lossless.store.search import find_mentions

    found = find_mentions(archive, conversation_id, names, through=through, limit=MAX_MESSAGES + 1)
    return {name: message_references(ids) for name, ids in found.items() if 0 < len(ids) <= MAX_MESSAGES}

"""What a prompt gets of what was compacted away: names in it that were spoken of, and where; or quotations."""

from __future__ import annotations

import re

#: How much of a prompt is looked at; a pasted log is not a question.
_PROMPT_CHARS = 20_000
_MAX_NAMES = 5
#: A name in more messages than this leads nowhere; of the others so many are told.
_MAX_MESSAGES, _PLACES = 12, 3
#: How many names of a prompt are looked up in the archive.
_LOOKED_UP = 12
_NAME = re.compile(r"[\w~][\w./@+-]{2,79}")
#: What a name looks like: snake_case, a/path, ERR-4597, file.py, camelCase.
_TELLING = re.compile(
    r"\w*[^\W_]_[^\W_].*|.*\w/\w.*|[A-Za-z]{2,12}-\d{2,12}|[\w-]+\.(?:[a-z]{1,5}|[a-z]\w{1,3})|[A-Za-z]*[a-z0-9][A-Z][a-z0-9]\w*"
)


def prompt_cue(prompt: str, known: dict[str, object]) -> str:
    """What the archive has about names in a prompt, by its index; '' when there is nothing to say."""
    words = dict.fromkeys(word.rstrip(".-/+") for word in _NAME.findall(prompt[:_PROMPT_CHARS]))
    names, place = [word for word in words if looks_like_name(word)][:_LOOKED_UP], _compacted_part(known)
    if not names or place is None:
        return ""
    from lossless.recall.mentions import find_mentions

    archive, conversation_id, through = place
    found = find_mentions(archive, conversation_id, names, through=through, limit=_MAX_MESSAGES + 1)
    few = [(name, ids) for name, ids in found.items() if 0 < len(ids) <= _MAX_MESSAGES][:_MAX_NAMES]
    if not few:
        return ""
    listed = "; ".join(f"{name} ({', '.join(f'msg#{id_}' for id_ in ids[:_PLACES])})" for name, ids in few)
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


def _compacted_part(known: dict[str, object]) -> tuple[str, int, int] | None:
    """The archive and the conversation in it that hold what was compacted away, and its last message."""
    archive, conversation_id, through = known.get("archive"), known.get("conversationId"), known.get("through")
    if not isinstance(archive, str) or not isinstance(conversation_id, int) or not isinstance(through, int):
        return None
    return archive, conversation_id, through


def prompt_evidence(prompt: str, known: dict[str, object]) -> tuple[str, list[int]]:
    """What was said earlier about what a prompt asks, and the messages that it quotes.

    Nothing of an archive that cannot be read.
    """
    place, limit, quoted, zone = _compacted_part(known), *map(known.get, ("evidenceTokens", "quoted", "timezone"))
    if place is None or not isinstance(limit, int):
        return "", []
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    from lossless.errors import LosslessError
    from lossless.maintenance.prompts import evidence_in_file, render_evidence

    archive, conversation_id, through = place
    told = frozenset(quoted if isinstance(quoted, list) else ())

    def in_prompt(message_id: int) -> bool:
        """Whether the host's model sees a message: it came since the compaction, or was quoted since."""
        return message_id > through or message_id in told

    now = datetime.now(UTC).astimezone(ZoneInfo(zone) if isinstance(zone, str) and zone else UTC)
    try:
        found = evidence_in_file(archive, conversation_id, prompt, limit, now, in_prompt)
    except LosslessError:
        return "", []
    return (render_evidence(found), [item.id for item in found]) if found else ("", [])

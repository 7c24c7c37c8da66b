"""A short word beside a prompt: names in it that were spoken of before the compaction, and where."""

from __future__ import annotations

import re

#: How much of a prompt is looked at; a pasted log is not a question.
_PROMPT_CHARS = 20_000
_MOST = 5
_NAME = re.compile(r"[\w~][\w./@+-]{2,79}")


def cue(prompt: str, known: dict[str, object]) -> str:
    """What the archive has about names in a prompt; '' when there is nothing to say."""
    names = known.get("names")
    if not isinstance(names, dict) or not names:
        return ""
    found: dict[str, str] = {}
    for word in _NAME.findall(prompt[:_PROMPT_CHARS]):
        name = word.rstrip(".-/+")
        ids = names.get(name)
        if isinstance(ids, str) and name not in found:
            found[name] = ids
            if len(found) == _MOST:
                break
    if not found:
        return ""
    listed = "; ".join(f"{name} ({ids})" for name, ids in found.items())
    return (
        f"Spoken of earlier in this session, before its context was compacted: {listed}. "
        "lcm_describe opens these messages word for word; lcm_recall finds more."
    )

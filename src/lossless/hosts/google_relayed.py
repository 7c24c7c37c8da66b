"""What agents of one ADK session are shown of each other: quotes in a user's content, read as what they quote.

So all agents keep one history, whichever of them has spoken, and each is sent the others' part as ADK words it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How ADK begins a content that quotes another agent.
_PREAMBLE = "For context:"
#: One thing that another agent did: who, what (said, or the tool that it called or that answered), and the words.
_QUOTE = re.compile(
    r"\[([^\]\n]+)\] (said|thought|called tool `.*?` with parameters|`.*?` tool returned result):\s(.*)", re.DOTALL
)
#: What ADK puts around the words of others, and in the place of such marks within them.
_MARKS = re.compile(r"<<<(?:(?:BEGIN|END)_QUOTED_AGENT_CONTENT|ELIDED_MARKER)>>>")
#: How the ids begin that ADK makes; whether they are sent depends on the model.
_OWN_ID = "adk-"

_Told = tuple[tuple[str, str, str], ...]


class Relayed:
    """The contents of a session's events, by the words in which other agents are shown them."""

    def __init__(self, events: Iterable[Any] = ()) -> None:
        self._by_words: dict[_Told, list[Any]] = {}
        for event in events:
            if event.content and (told := _told(event.author, event.content.parts or ())):
                self._by_words.setdefault(told, []).append(event.content)

    def originals(self, contents: Iterable[Any]) -> list[Any]:
        """Contents as the agents made them; a quote of something unknown stays a quote."""
        left = {told: list(found) for told, found in self._by_words.items()}
        made = []
        for content in contents:
            found = left.get(quoted) if (quoted := _quoted(content)) else None
            made.append((found.pop(0) if len(found) > 1 else found[0]) if found else content)
        return made


class Shown:
    """What one agent is shown in the place of each content that a session has."""

    def __init__(self, originals: Sequence[Any] = (), contents: Sequence[Any] = ()) -> None:
        self._shown: dict[str, list[Any]] = {}
        for original, content in zip(originals, contents, strict=True):
            key = _key(original.model_dump(mode="json", exclude_none=True, fallback=str))
            self._shown.setdefault(key, []).append(content)

    def last(self, own: Any) -> Any | None:
        """What is shown for a content; each is given once, the newest first."""
        found = self._shown.get(_key(own))
        return found.pop() if found else None


def _key(own: Any) -> str:
    """A content without the ids that come and go."""
    return json.dumps(_without_ids(own), sort_keys=True, default=str)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_ids(item)
            for name, item in value.items()
            if not (name == "id" and isinstance(item, str) and item.startswith(_OWN_ID))
        }
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def _told(author: str, parts: Iterable[Any]) -> _Told:
    """What a content says, calls and returns, in the words of a quote."""
    made = []
    for part in parts:
        if part.thought:
            continue
        if part.text and part.text.strip():
            made.append((author, "said", _plain(part.text)))
        elif call := part.function_call:
            args = dict(sorted(call.args.items())) if call.args else call.args
            made.append((author, _plain(f"called tool `{call.name}` with parameters"), _plain(str(args))))
        elif result := part.function_response:
            made.append((author, _plain(f"`{result.name}` tool returned result"), _plain(str(result.response))))
    return tuple(made)


def _quoted(content: Any) -> _Told:
    """What a content quotes of another agent; nothing when it is none of these."""
    parts = content.parts or []
    if content.role != "user" or not parts or not (parts[0].text or "").startswith(_PREAMBLE):
        return ()
    found = [_QUOTE.fullmatch(part.text) for part in parts[1:] if part.text]
    return tuple(
        (quote[1], _plain(quote[2]), _plain(quote[3])) for quote in found if quote is not None and quote[2] != "thought"
    )


def _plain(text: str) -> str:
    return _MARKS.sub("", text).strip()

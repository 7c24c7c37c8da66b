"""Calls of functions and their results in Google's contents: which belong together, also where ids are left out."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.hosts.window import Raw

#: How the ids begin that ADK makes itself; they come and go with the model that a request is for.
_OWN = "adk-"


class Names:
    """Ids for calls that have none, as ADK sends them to Gemini: by name and arguments, and which of them it is.

    Results go to the calls of their name in the model's last content, in the order in which these were made.
    """

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._open: list[tuple[Any, str]] = []

    def calls_of(self, calls: Iterable[Any]) -> list[str]:
        """The ids of the calls in one content of the model."""
        self._open = [(call, self._of_call(call)) for call in calls]
        return [made for _, made in self._open]

    def of_result(self, result: Any) -> str:
        """The id of the call that a result belongs to."""
        same = [one for one in self._open if one[0].name == result.name]
        found = next((one for one in same if one[0].id == result.id), same[0] if same else None)
        if found is None:
            return str(result.id or result.name)
        self._open.remove(found)
        return found[1]

    def _of_call(self, call: Any) -> str:
        if call.id and not call.id.startswith(_OWN):
            return str(call.id)
        told = f"{call.name}-{blake2b(_json(call.args or {}).encode(), digest_size=6).hexdigest()}"
        self._made[told] += 1
        return told if self._made[told] == 1 else f"{told}-{self._made[told]}"


def calls_of(calls: Sequence[Any], names: Names) -> list[Raw]:
    """The calls of one content, as a chat message has them."""
    return [
        {"id": id_, "type": "function", "function": {"name": call.name, "arguments": _json(call.args or {})}}
        for call, id_ in zip(calls, names.calls_of(calls), strict=True)
    ]


def result_of(result: Any, names: Names) -> Raw:
    """A result as a chat message."""
    given = {"tool_call_id": names.of_result(result), "name": result.name}
    return {"role": "tool", **given, "content": _json(result.response)}


def _json(value: Any) -> str:
    return json.dumps(value, default=str)

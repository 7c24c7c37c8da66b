"""The log of a context under the archive's numbers, with what undoing its steps needs. Pure.

A step whose rows did not all come along stays in the log, and says that it can no longer be undone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.store.bundles import Values
    from lossless.transfer.merge_plan import Plan

#: Why a step of an imported log cannot be undone.
LOST = "it came from another archive, and not all that it changed came along"


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the rows of a conversation are numbered by here, by the numbers they had."""

    conversation_id: int
    logs: Mapping[int, int]
    pins: Mapping[int, int] = field(default_factory=dict)
    #: The conversations of the same source that came before.
    conversations: Mapping[Any, int] = field(default_factory=dict)


def merged_from(log: Sequence[Values]) -> set[Any]:
    """The conversations whose messages a log says to have been merged, by their numbers there."""
    sources = [_read(row.get("detail")).get("sources") for row in log if row["action"] == "merge"]
    found = [one.get("id") for some in sources if isinstance(some, list) for one in some if isinstance(one, dict)]
    return {id_ for id_ in found if isinstance(id_, int | str)}


class _LeftBehindError(Exception):
    """Something that a step needs did not come along."""


def log_and_former(
    plan: Plan, numbers: Numbers, log: Sequence[Values], former: Sequence[Values]
) -> tuple[list[Values], list[Values]]:
    """The lines of a log, and the summaries as they were before their changes."""
    kept, lost = [], set()
    for row in former:
        log_id = int(given) if (given := str(row.get("log_id"))).isdecimal() else 0  # files have it as a text
        try:
            kept.append(_former(plan, numbers, row, log_id))
        except _LeftBehindError:
            lost.add(log_id)
    found = [_line(plan, numbers, row, is_lost=row["log_id"] in lost) for row in log]
    return found, kept


def _line(plan: Plan, numbers: Numbers, row: Values, *, is_lost: bool) -> Values:
    detail = _read(row.get("detail"))
    removed, added = _items(plan, row["removed"]), _items(plan, row["added"])
    try:
        if row["action"] == "undo":
            undone = numbers.logs.get(detail.get("undoes", 0))
            detail = {} if undone is None else {"undoes": undone}
        elif is_lost or None in (*removed, *added):
            raise _LeftBehindError
        else:
            detail = _detail(plan, numbers, row["action"], detail)
    except _LeftBehindError:
        detail = {"lost": LOST}
    return row | {
        "log_id": numbers.logs[row["log_id"]],
        "removed": json.dumps([item for item in removed if item is not None]),
        "added": json.dumps([item for item in added if item is not None]),
        "detail": json.dumps(detail) if detail else None,
    }


def _items(plan: Plan, text: Any) -> list[int | str | None]:
    """The items of a JSON list under the archive's ids, None for a message that is not here.

    Summaries that are gone keep their names.
    """
    try:
        items = json.loads(text)
    except (TypeError, ValueError):
        return []
    return [_item(plan, item) for item in items if isinstance(item, int | str)] if isinstance(items, list) else []


def _item(plan: Plan, item: int | str) -> int | str | None:
    return plan.item(item) or (item if plan.keeps_numbers or isinstance(item, str) else None)


def _read(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _detail(plan: Plan, numbers: Numbers, action: str, detail: dict[str, Any]) -> dict[str, Any]:
    """What undoing a step needs, under the archive's numbers."""
    try:
        match action:
            case "transplant" if detail and "lost" not in detail:
                return detail | _things(plan, detail) | {"messages": _all(plan, detail["messages"])}
            case "merge" if detail and "lost" not in detail:
                return _merge(plan, numbers, detail)
            case "transplant" | "merge":
                return detail or {"lost": LOST}
            case _:
                return detail
    except (KeyError, TypeError, ValueError):  # a log that others wrote into
        raise _LeftBehindError from None


def _things(plan: Plan, one: dict[str, Any]) -> dict[str, Any]:
    """Summaries and files; a file that another conversation has here is none of it."""
    files = [id_ for id_ in one["files"] if id_ in plan.is_new["files"]]
    return {"summaries": _all(plan, one["summaries"]), "files": files}


def _all(plan: Plan, items: Sequence[int | str]) -> list[int | str]:
    found = [item for given in items if (item := _item(plan, given)) is not None]
    if len(found) < len(items):
        raise _LeftBehindError
    return found


def _merge(plan: Plan, numbers: Numbers, detail: dict[str, Any]) -> dict[str, Any]:
    if not plan.keeps_places:
        raise _LeftBehindError
    ids = [[[_all(plan, [id_])[0], entry, event] for id_, entry, event in rows] for rows in detail["ids"]]
    sources = [_source(plan, numbers, source) for source in detail["sources"]]
    return detail | {"sources": sources, "ids": ids, "superseded": _all(plan, detail["superseded"])}


def _source(plan: Plan, numbers: Numbers, source: dict[str, Any]) -> dict[str, Any]:
    came_as = numbers.conversations.get(source["id"], source["id"] if plan.keeps_numbers else None)
    if came_as is None:
        raise _LeftBehindError
    return source | _things(plan, source) | {
        "id": came_as,
        "context": [[ordinal, _all(plan, [item])[0]] for ordinal, item in source["context"]],
        "hidden": _all(plan, source["hidden"]),
        "pins": [numbers.pins[pin] for pin in source["pins"] if pin in numbers.pins],
        "briefs": [[id_, status] for id_, status in source["briefs"] if id_ in plan.is_new["briefs"]],
    }  # fmt: skip


def _former(plan: Plan, numbers: Numbers, row: Values, log_id: int) -> Values:
    """A summary as it was, under the archive's numbers."""
    try:
        state = _read(row["state"])
        name = _all(plan, [row["summary_id"]])[0]
        state["row"] = state["row"] | {"summary_id": name, "conversation_id": numbers.conversation_id}
        state["messages"], state["sources"] = _all(plan, state["messages"]), _all(plan, state["sources"])
        here = numbers.logs[log_id]
    except (KeyError, TypeError):
        raise _LeftBehindError from None
    return {"log_id": here, "summary_id": name, "state": json.dumps(state, separators=(",", ":"))}

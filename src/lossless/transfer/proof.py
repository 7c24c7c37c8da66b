"""Whether a conversation that was read back is the one that was written. Pure."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from lossless.store.bundles import EXTRAS, OURS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lossless.store.bundles import Bundle, Values

#: Tables that only archives of ours have.
_OURS = frozenset((*OURS, "former_summaries"))
#: Columns that say where a row stands.
_PLACE = frozenset(("message_id", "session_id"))


def difference(written: Bundle, back: Bundle, files: Sequence[Values], *, ours: bool) -> str | None:
    """What is not the same in two copies of a conversation, None when all is; `files` are the rows meant for it.

    Without `ours` only what lossless-claw itself keeps is looked at.
    """
    expected = {"large_files": list(files)} | {
        table: rows for table, rows in written.tables.items() if table != "large_files" and (ours or table not in _OURS)
    }
    if _plain(written.conversation) != _plain(back.conversation):
        return "the conversation itself"
    for table, rows in expected.items():
        if list(map(_plain, rows)) != list(map(_plain, back.tables.get(table, []))):
            return f"its rows of {table}"
    if list(map(_plain, written.context)) != list(map(_plain, back.context)):
        return "its context"
    names = () if ours else ("stale",)
    if [_plain(one, names) for one in written.summaries] != [_plain(one, names) for one in back.summaries]:
        return "its summaries"
    return _different_message(written, back, () if ours else (*EXTRAS, "versions"))


def _different_message(written: Bundle, back: Bundle, but: Collection[str]) -> str | None:
    messages = (message for page in written.pages() for message in page)
    copies = (message for page in back.pages() for message in page)
    for one, other in zip_longest(messages, copies):
        if one is None or other is None or _message(one, but) != _message(other, but):
            return f"the message at {(one or other)['seq']}"
    return None


def _message(message: Values, but: Collection[str]) -> Values:
    parts = [_plain({name: value for name, value in part.items() if name not in _PLACE}) for part in message["parts"]]
    return _plain({name: value for name, value in message.items() if name not in but}) | {"parts": parts}


def _plain(row: Values, but: Collection[str] = ()) -> Values:
    """A row without the columns that say nothing, and some others."""
    return {name: value for name, value in row.items() if value is not None and name not in but}

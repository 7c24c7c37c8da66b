"""How many messages of a call content alone cannot place: the most that `ambiguous` may say.

Without ids, a window is explained by an overlap: the last rows are its first messages. Overlaps of several lengths
may explain it, if what one of them calls new may well be said again, or called again under an id that the host uses
again; their difference is undecidable. Where the host has changed, moved or left out something there is no plain
overlap: then each message that may well be said again is, and each that comes back into the context. The first message
may be the host's own summary, with an overlap behind it. Where calls have other ids in every window, a round that the
rows end with may be one that was made once more.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hosts_fuzz.calls import Call, Shown
    from tests.hosts_fuzz.rules import Expected, Unit
    from tests.hosts_fuzz.words import Words


def undecidable(before: Expected, call: Call) -> int:
    """Asked before `before` takes the call."""
    if call.verb == "restart" or all(one.entry_id is not None for one in call.shown):
        return _without_stored_ids(before, call)
    told: dict[object, set[str]] = {}
    for unit in before.units:
        told.setdefault(unit.words.said, set()).update(unit.atoms)
    for one in call.shown:
        told.setdefault(one.words.said, set()).update(one.atoms)
    again = [one.words.is_short or len(told[one.words.said]) > 1 for one in call.shown]
    begin = 1 if call.shown and call.shown[0].words.role == "system" else 0
    body, again = list(call.shown[begin:]), again[begin:]
    rounds = _newest_round(before) if any(one.has_new_ids for one in call.shown) else 0
    if call.verb == "sync" and _is_overlap(before, body):
        rows = [unit for unit in before.context if unit.words.role != "system"]
        again = [open_ or _is_made_again(one.words) for one, open_ in zip(body, again, strict=True)]
        return rounds + (_overlaps(rows, body, again) or _overlap_behind_head(rows, body, again))
    called = (bool(one.words.calls) and _is_made_again(one.words) for one in body)
    again = [open_ or is_short for open_, is_short in zip(again, called, strict=True)]
    return (
        rounds + sum(again) + sum(_comes_back(before, one) for one, open_ in zip(body, again, strict=True) if not open_)
    )


def _is_made_again(words: Words) -> bool:
    """A very short call, under ids that its host also gives to others."""
    return len(words.text) < 16 and all(len(id_) < 19 and len(said) < 16 for id_, _, said in words.calls)


def _newest_round(before: Expected) -> int:
    """How many calls and results are at the end of the context."""
    newest = reversed([unit.words for unit in before.context if unit.words.role != "system"])
    return sum(1 for _ in takewhile(lambda words: bool(words.calls) or words.role == "tool", newest))


def _comes_back(before: Expected, one: Shown) -> bool:
    """A message that had left the context: the host is back where it was, or the same was said once more."""
    unit = before.unit(one)
    return unit is not None and unit not in before.context


def _without_stored_ids(before: Expected, call: Call) -> int:
    """With ids on both sides nothing is open; rows that came without an id may be told from repeats by place only."""
    bare = {unit.words.said for unit in before.units if not unit.has_id}
    return sum(one.words.said in bare and one.words.is_short for one in call.shown)


def _is_overlap(before: Expected, body: list[Shown]) -> bool:
    """Whether the truth is a plain overlap: the newest rows in their words, then only new messages."""
    known = [unit for one in body if (unit := before.unit(one)) is not None]
    rows = [unit for unit in before.context if unit.words.role != "system"]
    if any(unit is not None for unit in map(before.unit, body[len(known) :])):
        return False
    words = [one.words.said for one in body[: len(known)]]
    return rows[len(rows) - len(known) :] == known and [unit.words.said for unit in known] == words


def _overlap_behind_head(rows: list[Unit], body: list[Shown], again: list[bool]) -> int:
    """The same where the first message may be the host's own summary of what was before: no row has its words."""
    if not body or any(unit.words.said == body[0].words.said for unit in rows):
        return 0
    return _overlaps(rows, body[1:], again[1:])


def _overlaps(rows: list[Unit], body: list[Shown], again: list[bool]) -> int:
    stored, window = [unit.words.said for unit in rows], [one.words.said for one in body]
    lengths = range(min(len(stored), len(window)), -1, -1)
    longest = next(n for n in lengths if stored[len(stored) - n :] == window[:n])
    shortest = longest
    for length in range(longest):
        if stored[len(stored) - length :] == window[:length] and all(again[length:longest]):
            shortest = length
            break
    return longest - shortest

"""Compares an archive and its prompt with what the rules say, after each call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.hosts_fuzz.formats import read
from tests.hosts_fuzz.rules import EITHER, KEEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.hosts_fuzz.calls import Call
    from tests.hosts_fuzz.rules import Expected, Unit
    from tests.hosts_fuzz.stored import Row
    from tests.hosts_fuzz.words import Words

#: Role, text and call of a block.
Piece = tuple[str, str, str]
#: What the engine puts into a prompt so that providers take it: no result came, or a user message must be first.
_FILLERS = ("missing tool result in session history", "[The conversation goes on from here.]")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: `lost`, `doubled`, `missing`, `stale`, `context`, `overcounted`, `hidden`, `tabs`, `replayed`."""

    what: str
    saying: str
    count: int = 1


def lost(expected: Expected, rows: Sequence[Row]) -> list[Problem]:
    """Every wording that was shown is in the archive; words of regrouped messages in any grouping."""
    stored = {piece for row in rows for piece in row.wordings}
    gone = sorted(piece for piece in expected.wordings if piece not in stored)
    texts = [text for _, text in stored]
    gone += sorted(
        piece for piece in expected.loose if not all(any(line in text for text in texts) for line in _lines(piece[1]))
    )
    return [Problem("lost", f"{kind}: {_short(text)}", len(gone)) for kind, text in gone[:1]]


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n\n") if line]


def rows_fit(expected: Expected, rows: Sequence[Row], ambiguous: int, *, by_conversation: bool) -> list[Problem]:
    """Each event is one row in its newest words; repeats may be missing as far as `ambiguous` says."""
    due = Counter(unit.words.said for unit in expected.units)
    have = Counter(row.words.said for row in rows)
    if by_conversation:
        each = Counter((row.conversation, row.words.said) for row in rows)
        most = {said: max(n for (_, other), n in each.items() if other == said) for said in have}
        have = Counter({said: max(most[said], min(count, due[said])) for said, count in have.items()})
    open_ = {unit.words.said for unit in expected.units if unit.regrouped}
    more = [said for said in (have - due).elements() if said not in open_]
    less = [said for said in (due - have).elements() if said not in open_]
    repeats = Counter(map(_unpunctuated, due.elements()))
    absent = [said for said in less if repeats[_unpunctuated(said)] == 1]
    problems = []
    surplus = sum(have.values()) - sum(due.values())
    if surplus > 0 and more:
        problems.append(Problem("doubled", f"{len(more)} rows too many: {_said(more[0])}", len(more)))
    elif more:
        problems.append(Problem("stale", f"a row has words that are not the newest: {_said(more[0])}", len(more)))
    if absent and not more:
        problems.append(Problem("missing", f"no row says {_said(absent[0])}", len(absent)))
    if len(less) - len(absent) > ambiguous and not more:
        saying = f"{len(less) - len(absent)} repeats have no row, ambiguous is {ambiguous}: {_said(less[0])}"
        problems.append(Problem("missing", saying, len(less)))
    return problems


def _unpunctuated(said: Any) -> Any:
    """A very short text without its full stop: another one or an edit of it, where the host goes on differently."""
    role, text, calls = said
    return (role, text.rstrip(".") if len(text) < 16 else text, calls)


def tabs(calls: Sequence[Call], rows: Sequence[Row]) -> list[Problem]:
    """Two windows in turns: one conversation up to the first return, then two, each with its own context."""
    last: dict[int, Call] = {}
    shown = returns = 0
    for call in calls:
        if call.tab:
            returns += call.tab in last and call.tab != shown
            last[call.tab], shown = call, call.tab
    wanted = 2 if returns > 1 else 1
    conversations = {row.conversation for row in rows}
    if len(conversations) != wanted:
        return [Problem("tabs", f"{len(conversations)} conversations after {returns} returns", len(conversations))]
    if returns < 2:
        return []
    contexts = [
        Counter(row.words.said for row in rows if row.conversation == one and row.in_context) for one in conversations
    ]
    for tab, call in last.items():
        if Counter(one.words.said for one in call.shown) not in contexts:
            return [Problem("tabs", f"no conversation has the context of tab {tab}")]
    return []


def hidden(rows: Sequence[Row]) -> list[Problem]:
    """What is not in a context has a cause (nothing is folded here)."""
    bad = [row for row in rows if not row.in_context and row.cause is None]
    return [Problem("hidden", f"out of the context without a cause: {_said(bad[0].words.said)}")] if bad else []


def context(expected: Expected, messages: Sequence[Any], ambiguous: int) -> list[Problem]:
    """The prompt is the expected context in its order; what is open may be missing."""
    prompt = [words for message in messages for words in read(message) if not _is_filler(words)]
    floating = {unit.words.said for unit in expected.units if unit.floating}
    prompt = [words for words in prompt if words.said not in floating]
    due = [(unit, _is_due(expected, unit, ambiguous)) for unit in expected.context if _may_be_shown(expected, unit)]
    if any(unit.regrouped for unit in expected.units):
        return _once(due, prompt)
    if expected.unordered:
        needed = Counter(unit.words.said for unit, must in due if must)
        absent = list((needed - Counter(words.said for words in prompt)).elements())
        return [Problem("context", f"not in the prompt: {_said(absent[0])}")] if absent else []
    spoken = [(piece, must) for unit, must in due for piece in unit.words.spoken]
    return _compared(spoken, [piece for words in prompt for piece in words.spoken])


def _is_filler(words: Words) -> bool:
    return any(filler in words.text for filler in _FILLERS)


def _once(due: list[tuple[Unit, bool]], prompt: list[Words]) -> list[Problem]:
    """However messages are grouped, each word that is due stands in the prompt once."""
    everything = "\n\n".join(words.text for words in prompt)
    for unit, must in due:
        found = everything.count(unit.words.text)
        if must and not unit.regrouped and len(unit.words.text) > 24 and found != 1:
            return [Problem("context", f"{found} times in the prompt: {_said(unit.words.said)}")]
    return []


def _is_due(expected: Expected, unit: Unit, ambiguous: int) -> bool:
    if unit.state == EITHER or not (unit.words.text or unit.words.calls):
        return False
    if ambiguous and sum(other.words.said == unit.words.said for other in expected.units) > 1:
        return False
    return _is_paired(expected.context, unit)


def _is_paired(units: list[Unit], unit: Unit) -> bool:
    """A call whose result is not there, and a result whose call is not, need not be in a prompt."""
    place = units.index(unit)
    if unit.words.calls:
        after = [other.words.answers for other in units[place + 1 : place + 1 + len(unit.words.calls)]]
        return all(id_ in after for id_, _, _ in unit.words.calls)
    if unit.words.role == "tool":
        before = next((other for other in reversed(units[:place]) if other.words.role != "tool"), None)
        called = before is not None and unit.words.answers in [id_ for id_, _, _ in before.words.calls]
        return called and before is not None and before.state == KEEP
    return True


def _may_be_shown(expected: Expected, unit: Unit) -> bool:
    """Of two results of one call the last one stands in the prompt; the host's own summary is not looked at."""
    units = expected.context
    place = units.index(unit)
    following = units[place + 1] if place + 1 < len(units) else None
    if unit.words.role != "tool" or following is None:
        return not unit.floating
    return following.words.role != "tool" or following.words.answers != unit.words.answers


def _compared(due: list[tuple[Piece, bool]], prompt: list[Piece]) -> list[Problem]:
    """Walk over both: each message of the prompt is the next due one, of which open ones may be left out."""
    reached = {0}
    for number, said in enumerate(prompt):
        following = set()
        for place in reached:
            for other in range(place, len(due)):
                piece, must = due[other]
                if piece == said:
                    following.add(other + 1)
                if must:
                    break
        if not following:
            wanted = [_said(due[place][0]) for place in sorted(reached) if place < len(due)]
            return [Problem("context", f"prompt[{number}] is {_said(said)}, not {' or '.join(wanted) or 'its end'}")]
        reached = following
    left = max(next((n for n in range(place, len(due)) if due[n][1]), len(due)) for place in reached)
    if left < len(due):
        return [Problem("context", f"the prompt ends before {_said(due[left][0])}")]
    return []


def _said(said: Any) -> str:
    role, text, calls = said
    return f"{role} {_short(text)!r}" + (f" {calls}" if calls else "")


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:40]}…{text[-25:]}"

"""Plays the calls of a host against an archive, and shortens what fails."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import lossless
from lossless.testing import VirtualClock
from tests.hosts_fuzz import judge
from tests.hosts_fuzz.formats import write
from tests.hosts_fuzz.kinds import KINDS
from tests.hosts_fuzz.rules import Expected
from tests.hosts_fuzz.stored import Reader
from tests.hosts_fuzz.undecidable import undecidable
from tests.hosts_fuzz.world import World, make_style

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosts_fuzz.calls import Call, Shown
    from tests.hosts_fuzz.judge import Problem

_BUDGET = 100_000_000
#: A shortened window keeps so many messages: with fewer, others would be anchors, and it would be another case.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class Run:
    """A host of some kind, and all that it does: the calls do not depend on the answers."""

    kind: str
    seed: int
    format: str
    calls: tuple[Call, ...]


@dataclass(slots=True)
class Played:
    """What came of a run. `at` is the call that went wrong."""

    problems: list[Problem] = field(default_factory=list)
    at: int = 0
    calls: int = 0
    events: int = 0
    messages: int = 0
    ambiguous: int = 0
    undecidable: int = 0
    likely: int = 0
    revised: int = 0


def make_run(kind: str, seed: int) -> Run:
    """The run of that seed."""
    random = Random(f"{kind}/{seed}")
    host = KINDS[kind]
    world = World(random, make_style(random, host.formats, host.with_ids, host.tools))
    return Run(kind, seed, world.style.format, tuple(host(world).calls()))


class Stage:
    """An archive that many runs share, each in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lcm.db"
        self._number = 0
        self._open()

    def _open(self) -> None:
        settings = lossless.Settings(payloads_in_files=False, independent_log_file_enabled=False)
        self.engine = lossless.open(self.path, settings, clock=VirtualClock(), background=False)
        self.reader = Reader(self.path, self.engine)

    def restart(self) -> None:
        self.close()
        self._open()

    def session(self) -> lossless.Session:
        self._number += 1
        return lossless.Session(key=f"host-{self._number}", id=f"run-{self._number}")

    def close(self) -> None:
        self.reader.close()
        self.engine.close()


@contextmanager
def stage() -> Iterator[Stage]:
    with TemporaryDirectory() as folder:
        opened = Stage(Path(folder))
        try:
            yield opened
        finally:
            opened.close()


def play(opened: Stage, run: Run) -> Played:
    """Make the calls one after the other, and stop at the first one that goes wrong."""
    session, played, expected = opened.session(), Played(), Expected()
    for number, call in enumerate(run.calls):
        played.at = number
        played.calls += 1
        played.messages += len(call.shown)
        if call.verb == "restart":
            opened.restart()
            continue
        played.undecidable += undecidable(expected, call)
        _make(opened, session, run, call, played)
        expected.take(call)
        played.problems = _judged(opened, session, run, expected, played)
        if played.problems:
            break
    played.events = len(expected.units)
    if not played.problems and run.calls:
        played.problems = _again(opened, session, run, played)
    return played


def _make(opened: Stage, session: lossless.Session, run: Run, call: Call, played: Played) -> None:
    items = [_item(one, run.format) for one in call.shown]
    report: Any
    if call.verb == "bootstrap":
        report = opened.engine.bootstrap(session, items, fold=False)
    elif call.verb == "append":
        report = opened.engine.append(session, items, key=call.key)
    elif run.seed % 3 == 0:
        report = opened.engine.after_turn(session, window=items, key=call.key, budget=_BUDGET).append
    else:
        report = opened.engine.sync(session, items, key=call.key)
    for name in ("ambiguous", "likely", "revised"):
        setattr(played, name, getattr(played, name) + getattr(report, name, 0))


def _item(one: Shown, format_: str) -> Any:
    message = write(one.words, format_)
    return message if one.entry_id is None else lossless.Incoming(message, entry_id=one.entry_id)


def _judged(opened: Stage, session: lossless.Session, run: Run, expected: Expected, played: Played) -> list[Problem]:
    rows = opened.reader.rows(str(session.key))
    made = opened.engine.assemble(session, budget=_BUDGET, format=run.format, allow_trailing_assistant=True)
    kind = KINDS[run.kind]
    problems = judge.lost(expected, rows)
    problems += judge.rows_fit(expected, rows, played.ambiguous, by_conversation=kind.parts)
    problems += judge.hidden(rows)
    if kind.tabs:
        problems += judge.tabs(run.calls[: played.at + 1], rows)
    if played.ambiguous > played.undecidable:
        saying = f"ambiguous is {played.ambiguous}, undecidable {played.undecidable}"
        problems.append(judge.Problem("overcounted", saying))
    return problems or judge.context(expected, made.messages, played.ambiguous)


def _again(opened: Stage, session: lossless.Session, run: Run, played: Played) -> list[Problem]:
    """The last call once more changes nothing; a batch without ids and key says that it is new, each time."""
    call = run.calls[-1]
    named = call.key is not None or all(one.entry_id for one in call.shown)
    if call.verb == "restart" or (call.verb == "append" and not named):
        return []
    before = opened.reader.state(str(session.key))
    _make(opened, session, run, call, copy(played))
    after = opened.reader.state(str(session.key))
    return [] if before == after else [judge.Problem("replayed", "the same call again changed the archive")]


def shrink(opened: Stage, run: Run, what: str) -> Run:
    """The run without calls and events that do not matter for what goes wrong."""

    def fails(other: Run) -> bool:
        return is_sane(other) and any(problem.what == what for problem in play(opened, other).problems)

    run = replace(run, calls=run.calls[: play(opened, run).at + 1])
    place = len(run.calls) - 2
    while place >= 0:
        fewer = replace(run, calls=run.calls[:place] + run.calls[place + 1 :])
        run = fewer if fails(fewer) else run
        place -= 1
    for group in _groups(run):
        if min(len(call.shown) for call in run.calls if call.shown) - len(group) < _FEWEST:
            continue
        calls = [replace(call, shown=tuple(o for o in call.shown if group.isdisjoint(o.atoms))) for call in run.calls]
        fewer = replace(run, calls=tuple(calls))
        run = fewer if fails(fewer) else run
    return run


def _groups(run: Run) -> list[set[str]]:
    """Events that may be left out together: a call goes with its results, and what is reduced or regrouped stays."""
    order = dict.fromkeys(one.atoms for call in run.calls for one in call.shown)
    results = {one.atoms for call in run.calls for one in call.shown if one.words.role == "tool"}
    changed = [one.atoms for call in run.calls for one in call.shown if one.reduced or one.regrouped]
    marked = {atom for atoms in changed for atom in atoms}
    groups: list[set[str]] = []
    for atoms in order:
        if groups and atoms in results:
            groups[-1].update(atoms)
        else:
            groups.append(set(atoms))
    return [group for group in groups if group.isdisjoint(marked)]


def is_sane(run: Run) -> bool:
    """Whether a host could do so: equal windows are equal, and what is regrouped was shown as it is before."""
    seen: dict[Any, tuple[tuple[str, ...], ...]] = {}
    known: set[str] = set()
    for call in run.calls:
        atoms = tuple(one.atoms for one in call.shown)
        if seen.setdefault((call.verb, *((one.words, one.entry_id) for one in call.shown)), atoms) != atoms:
            return False
        if any(atom not in known for one in call.shown if one.regrouped for atom in one.atoms):
            return False
        known |= {atom for of in atoms for atom in of}
    return True


def told(run: Run, played: Played) -> str:
    """The run in short: a line a message, its event in front."""
    lines = [f"kind {run.kind!r}, seed {run.seed}, {run.format}"]
    for number, call in enumerate(run.calls[: played.at + 1]):
        lines.append(f"  {number}: {call.verb}" + (f" key={call.key}" if call.key else ""))
        lines += [f"     {_line(one)}" for one in call.shown]
    lines += [f"  => {problem.what}: {problem.saying}" for problem in played.problems]
    return "\n".join(lines)


def _line(one: Shown) -> str:
    marks = "".join(mark for mark, has in (("-", one.reduced), ("+", one.regrouped), ("~", one.transient)) if has)
    words = one.words
    text = words.text if len(words.text) < 60 else f"{words.text[:40]}…{words.text[-15:]}"
    calls = " ".join(f"{name}[{id_}]" for id_, name, _ in words.calls)
    about = " ".join(filter(None, (calls, words.answers, "thinks" if words.thinking else "", one.entry_id or "")))
    return f"{'+'.join(one.atoms)}{marks} {words.role} {text!r} {about}"

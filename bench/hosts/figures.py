"""Figures of a run: from what the model saw, and from the archive's file, which is read here with SQL of our own."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.hosts.model import OURS
from bench.hosts.script import MARK, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.hosts.host import Host
    from bench.hosts.model import ScriptedModel, Seen
    from bench.hosts.script import Turn

#: What must hold in every run.
SUMMARY_SHARE, PREFIX_SHARE = 0.98, 0.80
#: How a host ends a result that it has cut.
CUT = re.compile(r"\[\.\.\. \d+ more characters truncated; [^\]]*\]\Z")


@dataclass(frozen=True, slots=True)
class Run:
    """What one host did."""

    host: str
    budget: int
    fits: bool
    turns: int
    #: Turns that ended with an error instead of an answer, and the first such error.
    failed: int
    error: str
    requests: int
    #: Requests that leave out earlier turns; those of them in which a summary stands for what is left out.
    left_out: int
    with_summary: int
    with_evidence: int
    #: Requests whose summaries are others than in the request before.
    folds: int
    largest: int
    over: int
    #: Between folds: the share of what was sent that the request before began with.
    prefix: float | None
    #: Texts that users or the model saw, how many the archive lacks, and how many users' texts it has twice.
    texts: int
    lost: int
    doubled: int
    answered: bool
    seconds: float
    #: For the picture: tokens, whether a summary and evidence are there, whether something is left out.
    points: list[tuple[int, bool, bool, bool]]
    #: Lines that the model was shown in a turn and that the host cut out of its own transcript: no plugin gets them.
    cut: int = 0

    def row(self) -> dict[str, object]:
        """A line of the table."""
        archive = "whole" if not self.lost + self.doubled else f"{self.lost} lost, {self.doubled} twice"
        archive += f", {self.cut} lines cut by the host" if self.cut else ""
        return {
            "host": self.host,
            "budget": self.budget,
            "turns": f"{self.turns}" + (f", {self.failed} failed" if self.failed else ""),
            "requests": self.requests,
            "with a summary": f"{self.with_summary} of {self.left_out}",
            "folds": self.folds,
            "largest": self.largest,
            "over": self.over if self.fits else None,
            "prefix": "–" if self.prefix is None else f"{self.prefix:.0%}",
            "archive": archive,
            "asked back": "answered" if self.answered else "no",
        }

    @property
    def holds_prefix(self) -> bool:
        return not self.fits or self.prefix is None or self.prefix >= PREFIX_SHARE

    def faults(self) -> list[str]:
        """The aims that were missed; also that nothing was left out, since such a run shows nothing."""
        share = self.with_summary / self.left_out if self.left_out else 0.0
        tests = {
            f"{self.failed} of {self.turns} turns failed ({self.error})": self.failed == 0,
            "no request had to leave anything out: the run is too short": self.left_out > 0,
            f"only {share:.1%} of the requests that leave something out have a summary": share >= SUMMARY_SHARE,
            f"{self.over} requests were over the limit, the largest had {self.largest:,} tokens": self.over == 0
            or not self.fits,
            f"{self.lost} of {self.texts} texts are not in the archive": self.lost == 0,
            f"{self.doubled} messages are in the archive twice": self.doubled == 0,
            "an early detail that was asked for did not come back": self.answered,
            f"only {self.prefix or 0:.1%} of what was sent between folds was a prefix": self.holds_prefix,
        }
        return [fault for fault, holds in tests.items() if not holds]

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def measured(
    host: Host,
    model: ScriptedModel,
    asked: Sequence[Turn],
    answers: Sequence[str],
    errors: Sequence[str],
    seconds: float,
) -> Run:
    """The figures of a host that has ended."""
    seen = model.seen
    left_out = [one for one in seen if one.missing]
    outputs = printed(model, asked)
    texts = expected(host, model, asked, outputs)
    stored = Archive(host.archive)
    missing = {text for text in texts if not stored.has(text)}
    cut = cut_by_host(missing, outputs, host.kept_results()) if missing else set()
    lost = sorted(missing - cut)
    if lost:
        (host.folder / "lost.json").write_text(json.dumps(lost, indent=1), encoding="utf-8")
    return Run(
        host=host.name,
        budget=host.budget,
        fits=host.fits,
        turns=len(asked),
        failed=len(errors),
        error=errors[0] if errors else "",
        requests=len(seen),
        left_out=len(left_out),
        with_summary=sum(bool(one.summaries) for one in left_out),
        with_evidence=sum(one.evidence for one in left_out),
        folds=sum(a.summaries != b.summaries for a, b in pairwise(seen)),
        largest=max((one.tokens for one in seen), default=0),
        over=sum(one.tokens > model.limit for one in seen),
        prefix=prefix_share(seen),
        texts=len(texts),
        lost=len(lost),
        doubled=stored.doubled(),
        answered=bool(answers) and SECRET in answers[-1],
        seconds=round(seconds, 1),
        points=[(one.tokens, bool(one.summaries), one.evidence, one.missing > 0) for one in seen],
        cut=len(cut),
    )


def markdown(runs: Sequence[Run], before: str = "", order: Sequence[str] = ()) -> str:
    """The table as documentation has it. What was not run anew stays as it was in the table `before`."""
    rows = [run.row() for run in runs]
    lines = [[f"{cell:,}" if isinstance(cell, int) else str(cell or "–") for cell in row.values()] for row in rows]
    known = {tuple(line[:2]): line for line in (row.strip("| ").split(" | ") for row in before.splitlines()[2:])}
    known |= {tuple(line[:2]): line for line in lines}
    found = sorted(known.values(), key=lambda line: order.index(line[0])) if order else list(known.values())
    return "".join(f"| {' | '.join(line)} |\n" for line in [list(rows[0]), ["---"] * len(rows[0]), *found])


def prefix_share(seen: Sequence[Seen]) -> float | None:
    """Of what was sent with the same summaries as the request before, how much that one began with."""
    pairs = [now for before, now in pairwise(seen) if now.summaries == before.summaries]
    sent = sum(one.size for one in pairs)
    return sum(one.same for one in pairs) / sent if sent else None


def printed(model: ScriptedModel, asked: Iterable[Turn]) -> list[str]:
    """What the commands printed that the model ran."""
    said = set(model.said)
    return [text for turn in asked for command, text in turn.outputs.items() if command in said]


def expected(host: Host, model: ScriptedModel, asked: Iterable[Turn], outputs: Iterable[str]) -> set[str]:
    """Every text that must be in the archive: users', the model's, and each line of what tools said."""
    lines = {line for text in outputs for line in text.splitlines()}
    return {turn.text for turn in asked} | set(model.said) | (lines if host.shows_all else lines & model.shown)


def cut_by_host(missing: set[str], outputs: Iterable[str], kept: Sequence[str]) -> set[str]:
    """Lines that the host's own transcript lacks too, of outputs that it has there with its mark of a cut."""
    marked = [text for text in kept if CUT.search(text)]
    lines = [text.splitlines() for text in outputs]
    cut = {line for some in lines if any(some[0].strip() in text for text in marked) for line in some}
    return {line for line in missing & cut if not any(line in text for text in kept)}


class Archive:
    """All texts of an archive: messages, their parts, and files that lie beside it."""

    def __init__(self, path: Path) -> None:
        rows, texts = _rows(path) if path.exists() else ([], [])
        self._users = [content for role, content in rows if role == "user"]
        self._whole = "\n".join(texts)
        self._lines = set(self._whole.splitlines())

    def has(self, text: str) -> bool:
        """Whether a text is there, as it was or as JSON has it."""
        return text in self._lines or text in self._whole or json.dumps(text)[1:-1] in self._whole

    def doubled(self) -> int:
        """How many turns of the user are there more than once."""
        marks = [mark for text in self._users for mark in set(MARK.findall(OURS.sub("", text)))]
        return len(marks) - len(set(marks))


def _rows(path: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Roles and contents of all messages, and every text that belongs to them."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = database.execute("SELECT role, content, large_content FROM messages").fetchall()
    parts = database.execute("SELECT text_content, tool_input, tool_output FROM message_parts").fetchall()
    files = database.execute("SELECT storage_uri FROM large_files").fetchall()
    database.close()
    texts = [text for _, *both in rows for text in both if text] + [text for row in parts for text in row if text]
    for (place,) in files:
        texts.append(Path(str(place).removeprefix("file://")).read_text(encoding="utf-8", errors="replace"))
    return [(role, content) for role, content, _ in rows], texts

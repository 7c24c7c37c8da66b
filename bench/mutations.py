"""Is the fuzzer worth its time? Each mistake in a table is made in a copy of the package, and must be found.

`python -m bench.mutations` makes them all; the checkout is never touched.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How each fuzzer is told to print little, and where it prints how many runs there were.
_OPTIONS = {"replay": ("--failures", "1"), "host": ("--show", "0")}
_RUNS = {"replay": r"^([\d,]+) runs", "host": r"^all +\d+ of +([\d,]+) failed"}

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lossless"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mistake: where a text that stands there once is replaced, and what that breaks."""

    name: str
    file: str
    text: str
    instead: str
    breaks: str
    #: The kind of host that notices first.
    kind: str
    #: The fuzzer that has this kind.
    fuzzer: Literal["replay", "host"] = "replay"


MUTATIONS = (
    Mutation(
        "keys are forgotten",
        "ingest/run.py",
        "self.archive.ingest.remember_key(self.conversation, key, ",
        'self.archive.ingest.remember_key(self.conversation, key + "?", ',
        "a batch that comes again under its key is stored again",
        "two producers",
    ),
    Mutation(
        "a row is adopted again and again",
        "ingest/plan.py",
        "if _is_free(rows[index], event) and rows[index].fingerprint == event.fingerprint:",
        "if rows[index].fingerprint == event.fingerprint:",
        "what is said again is taken for what was said before",
        "two producers",
    ),
    Mutation(
        "no row is adopted",
        "ingest/run.py",
        "if archive.ingest.producers(id_) & others:",
        "if id_ < 0:",
        "a turn that the runtime and the transcript bring is stored twice",
        "two producers",
    ),
    Mutation(
        "twins are stored",
        "ingest/transcript_entries.py",
        "if twin in stored or twin in seen:",
        "if twin is None:",
        "a history that was written again under new ids is stored again",
        "ids",
    ),
    Mutation(
        "answers of one moment are one",
        "ingest/transcript_entries.py",
        "names = {event.index: (event.fingerprint, _inner_time(event)) for event in unknown}",
        "names = {event.index: (event.identity.encode(), _inner_time(event)) for event in unknown}",
        "of two calls that end together with the same words only one answer is stored",
        "ids",
    ),
    Mutation(
        "the checkpoint runs ahead of the data",
        "ingest/transcripts/following.py",
        "replace(self.point, size=state.size, mtime_ms=state.mtime_ms, tail=tail)",
        "replace(self.point, offset=state.size, size=state.size, mtime_ms=state.mtime_ms, "
        "tail=tail_digest(state.path, state.size))",
        "the rest of a line that was half written is lost, and the message with it",
        "bare transcript",
    ),
    Mutation(
        "half a line counts as a bad one",
        "ingest/transcripts/records.py",
        "elif found is not None and is_ended:",
        "elif found is not None:",
        "a message is lost when the file is read while it is written",
        "bare transcript",
    ),
    Mutation(
        "what stands before the checkpoint is not looked at",
        "ingest/transcripts/bootstrap.py",
        "if point.kind is None or growth is None or digest_before(growth, point.offset) != point.tail:",
        "if point.kind is None or growth is None:",
        "a rewritten file is read from the middle of a line",
        "ids",
    ),
    Mutation(
        "branches stay in the context",
        "ingest/run.py",
        '            self.context.hide(self.id, plan.abandoned, "branch", self.now)\n',
        "            pass\n",
        "the model sees an answer that was regenerated, and its replacement",
        "branches",
    ),
    Mutation(
        "appended entries are taken for the same branch",
        "ingest/transcripts/bootstrap.py",
        "front = following.extend_front(work.front, lines.readable_entries(entries))",
        "front = following.extend_front(work.front, lines.readable_entries(entries), on_path=True)",
        "what the host has left stays in the context",
        "tree",
    ),
    Mutation(
        "our own words are not recognised",
        "ingest/synthetic.py",
        'if not text.startswith(_MARKS) or message.role not in ("user", "tool"):',
        "if text is not None:",
        "summaries that a host shows back are stored as messages",
        "ids",
    ),
    Mutation(
        "closed conversations are not asked",
        "ingest/transcripts/exclusions.py",
        "    formers = archive.transcripts.former(work.conversation)",
        "    formers: list[int] = []",
        "what was said before a reset is stored again behind it",
        "resets",
    ),
    Mutation(
        "closed conversations are known by ids alone",
        "ingest/transcripts/exclusions.py",
        "    if not _is_believed(path, history, by_id, by_words, next_):",
        "    if by_words or not by_words:",
        "a file that is rewritten under new ids after a reset is stored again",
        "resets",
    ),
    Mutation(
        "what was deleted is forgotten",
        "store/maintenance/deletion.py",
        "        TranscriptRecords(self._db).bury(conversation_ids, now)",
        "        TranscriptRecords(self._db).bury([], now)",
        "what was deleted for good comes back with the next reading",
        "prunes",
    ),
    Mutation(
        "a fork keeps only its newest part",
        "ingest/transcripts/exclusions.py",
        "    if shared:\n        return shared\n",
        "    return dict.fromkeys(range(len(messages)), parents[0])\n",
        "what a fork has said itself is lost",
        "forks",
    ),
    Mutation(
        "lines are never counted anew",
        "ingest/transcripts/entries.py",
        "{f'{age}.' if age else ''}",
        "{'' if age else ''}",
        "what is said again behind a shortened file without ids is lost",
        "bare rotations",
    ),
    Mutation(
        "everything is alike",
        "ingest/match.py",
        "                    if score >= (VERY_ALIKE if is_summary else ALIKE):",
        "                    if score >= 0:",
        "another answer is taken for a version of the one before",
        "branches",
        "host",
    ),
    Mutation(
        "nothing is alike",
        "ingest/match.py",
        "                    if score >= (VERY_ALIKE if is_summary else ALIKE):",
        "                    if score > 1:",
        "a message that is streamed is stored again and again",
        "streaming",
        "host",
    ),
    Mutation(
        "a place between two anchors is none",
        "ingest/match.py",
        "        is_between = anchored_before and anchored_after and len(shown) == len(rows)",
        "        is_between = anchored_before and anchored_after and not shown",
        "a message in other words is stored beside the one it was",
        "edits system",
        "host",
    ),
    Mutation(
        "calls are known by their ids only",
        "ingest/window.py",
        "    if not _may_have_new_ids(archive, conversation_id, events, stored.rows):",
        "    if stored.rows:",
        "tool rounds under new ids are stored again",
        "new call ids",
        "host",
    ),
    Mutation(
        "other cuts are not looked for",
        "ingest/match.py",
        "        self._fill_cut(shown, rows)\n",
        "        self._fill_cut([], rows)\n",
        "messages that a host shows as one are stored again",
        "merges",
        "host",
    ),
    Mutation(
        "what a host went on without stays",
        "ingest/match.py",
        "        if goes_on or (ends and (",
        "        if (ends and (",
        "the model sees a branch that its host has left",
        "regenerates the same",
        "host",
    ),
    Mutation(
        "deleted exchanges stay",
        "ingest/match.py",
        '        gone.update((s, "removed") for s in spoken)',
        '        gone.update((s, "removed") for s in spoken[:0])',
        "the model sees what a user has deleted",
        "deletes",
        "host",
    ),
    Mutation(
        "other words are dropped",
        "ingest/plan.py",
        "            if row is not None and n not in found.cuts and has_other_words(event, row)",
        "            if row is not None and n in found.cuts and has_other_words(event, row)",
        "an edit is lost",
        "edits",
        "host",
    ),
    Mutation(
        "what had left is stored again",
        "ingest/plan.py",
        "        row = after[0] if after else some[0] if some and n < end else None",
        "        row = None",
        "a branch that its host returns to is stored twice",
        "branches",
        "host",
    ),
    Mutation(
        "reductions are taken for edits",
        "ingest/run.py",
        "            if is_lesser or not self._is_current(",
        "            if not self._is_current(",
        "a row loses its words to a placeholder",
        "clears results",
        "host",
    ),
    Mutation(
        "edits are only kept",
        "ingest/run.py",
        "            if is_lesser or not self._is_current(plan, row, message, words):\n",
        "            if words:\n",
        "the model sees what a user has corrected",
        "edits",
        "host",
    ),
    Mutation(
        "reductions are lost",
        "ingest/run.py",
        '                self.archive.versions.keep(id_, shown.message, words, "lesser", self.now, notes)\n',
        "                pass\n",
        "what a host has shown in the place of a result is nowhere",
        "cuts results",
        "host",
    ),
    Mutation(
        "a window that is long enough has grown",
        "ingest/sync.py",
        "    if is_newest and prints.startswith(mark.chain):",
        "    if is_newest and len(prints) >= len(mark.chain):",
        "what a window shows in place of its old beginning is lost",
        "edits",
        "host",
    ),
)


def source(mutation: Mutation) -> str:
    """The text of the file that a mutation changes."""
    return (PACKAGE / mutation.file).read_text(encoding="utf-8")


def runs_until_found(mutation: Mutation, max_runs: int, seed: int = 1) -> int | None:
    """After how many runs the fuzzer notices, the host fuzzer after all of them; None when it does not."""
    if source(mutation).count(mutation.text) != 1:
        raise RuntimeError(f"{mutation.name}: its text does not stand in {mutation.file} once")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lossless"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        changed = source(mutation).replace(mutation.text, mutation.instead)
        (copy / mutation.file).write_text(changed, encoding="utf-8")
        command = [sys.executable, "-m", f"bench.{mutation.fuzzer}_fuzz", "--runs", str(max_runs), "--seed", str(seed)]
        command += ["--kind", mutation.kind, "--as-it-is", *_OPTIONS[mutation.fuzzer]]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": folder},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    found = re.search(_RUNS[mutation.fuzzer], done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{mutation.name}: the fuzzer itself has failed: {done.stderr[-500:]}")
    return int(found[1].replace(",", "")) if done.returncode else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Make all mistakes; 1 when one of them is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="in which each must be found")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    missed = 0
    for mutation in MUTATIONS:
        runs = runs_until_found(mutation, asked.runs, asked.seed)
        missed += runs is None
        when = "NOT FOUND" if runs is None else f"found in run {runs}"
        sys.stdout.write(f"{mutation.name} ({mutation.file}): {when}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} found\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

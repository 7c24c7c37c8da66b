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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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


MUTATIONS = (
    Mutation(
        "known ids are not looked up",
        "ingest/plan.py",
        "if entry_id in entries or key in keys:",
        "if key in keys:",
        "a batch that comes again is stored again",
        "ids",
    ),
    Mutation(
        "keys are forgotten",
        "ingest/run.py",
        "archive.ingest.remember_key(conversation, key, ",
        'archive.ingest.remember_key(conversation, key + "?", ',
        "a batch that comes again under its key is stored again",
        "two producers",
    ),
    Mutation(
        "a window that is long enough has grown",
        "ingest/prints.py",
        "if prints.startswith(mark.chain):",
        "if len(prints) >= len(mark.chain):",
        "what a window shows in place of its old beginning is lost",
        "distinct windows",
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
        "if archive.ingest.producers(conversation.id) & others:",
        "if conversation.id < 0:",
        "a turn that the runtime and the transcript bring is stored twice",
        "two producers",
    ),
    Mutation(
        "twins are stored",
        "ingest/entries.py",
        "if twin in stored or twin in seen:",
        "if twin is None:",
        "a history that was written again under new ids is stored again",
        "ids",
    ),
    Mutation(
        "what was left on a branch takes the new one's ids",
        "ingest/plan.py",
        "if has_other_id and (row.entry_id in stored.in_use or not covered or row.seq < newest):",
        "if has_other_id and (not covered or row.seq < newest):",
        "after a switch of branches the context is out of order",
        "repeating tree",
    ),
    Mutation(
        "answers of one moment are one",
        "ingest/entries.py",
        "names = {event.index: (event.fingerprint, _inner_time(event)) for event in unknown}",
        "names = {event.index: (event.identity.encode(), _inner_time(event)) for event in unknown}",
        "of two calls that end together with the same words only one answer is stored",
        "ids",
    ),
    Mutation(
        "the checkpoint runs ahead of the data",
        "lifecycle/readings.py",
        "size=state.size, mtime_ms=state.mtime_ms, tail=tail_of(state.path, work.point.offset))",
        "offset=state.size, size=state.size, mtime_ms=state.mtime_ms, tail=tail_of(state.path, state.size))",
        "the rest of a line that was half written is lost, and the message with it",
        "bare transcript",
    ),
    Mutation(
        "half a line counts as a bad one",
        "transcripts/lines.py",
        "elif found is not None and is_ended:",
        "elif found is not None:",
        "a message is lost when the file is read while it is written",
        "bare transcript",
    ),
    Mutation(
        "what stands before the checkpoint is not looked at",
        "lifecycle/resume.py",
        "if point.kind is None or growth is None or growth.tail(point.offset) != point.tail:",
        "if point.kind is None or growth is None:",
        "a rewritten file is read from the middle of a line",
        "ids",
    ),
    Mutation(
        "branches stay in the context",
        "ingest/run.py",
        '        archive.context.hide(conversation.id, plan.abandoned, "branch", now)\n',
        "        pass\n",
        "the model sees an answer that was regenerated, and its replacement",
        "branches",
    ),
    Mutation(
        "appended entries are taken for the same branch",
        "lifecycle/resume.py",
        "front = epochs.follow(work.front, records_of(entries))",
        "front = work.front.along(records_of(entries))",
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
        "lifecycle/elsewhere.py",
        "    formers = archive.histories.former(whose.conversation)",
        "    formers: list[int] = []",
        "what was said before a reset is stored again behind it",
        "resets",
    ),
    Mutation(
        "closed conversations are known by ids alone",
        "lifecycle/retelling.py",
        "    if not _is_believed(path, history.told, by_id, by_words, next_):",
        "    if by_words or not by_words:",
        "a file that is rewritten under new ids after a reset is stored again",
        "resets",
    ),
    Mutation(
        "what was deleted is forgotten",
        "store/retention.py",
        "        Histories(self._db).bury(conversation_ids, now)",
        "        Histories(self._db).bury([], now)",
        "what was deleted for good comes back with the next reading",
        "prunes",
    ),
    Mutation(
        "a fork keeps only its newest part",
        "lifecycle/elsewhere.py",
        "    return shared or _said_at_once(whose, messages, parents)",
        "    return dict.fromkeys(range(len(messages.ids)), parents[0])",
        "what a fork has said itself is lost",
        "forks",
    ),
    Mutation(
        "lines are never counted anew",
        "lifecycle/stream.py",
        "{f'{age}.' if age else ''}",
        "{'' if age else ''}",
        "what is said again behind a shortened file without ids is lost",
        "bare rotations",
    ),
)


def source(mutation: Mutation) -> str:
    """The text of the file that a mutation changes."""
    return (PACKAGE / mutation.file).read_text(encoding="utf-8")


def runs_until_found(mutation: Mutation, most: int, seed: int = 1) -> int | None:
    """After how many runs the fuzzer notices; None when it does not."""
    if source(mutation).count(mutation.text) != 1:
        raise RuntimeError(f"{mutation.name}: its text does not stand in {mutation.file} once")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lossless"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        changed = source(mutation).replace(mutation.text, mutation.instead)
        (copy / mutation.file).write_text(changed, encoding="utf-8")
        command = [sys.executable, "-m", "bench.replay_fuzz", "--runs", str(most), "--seed", str(seed)]
        command += ["--failures", "1", "--kind", mutation.kind, "--as-it-is"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": folder},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    found = re.search(r"^([\d,]+) runs", done.stdout, re.MULTILINE)
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

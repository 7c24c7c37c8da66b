"""The loop: assembling, folding, extracting, and what a turn costs besides storing it. `python -m bench.loop`

Everything without a model. CPU milliseconds; archives of different length, and engine and floor, interleaved in
one run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossless
from bench.conversations import agent_conversation, turns
from bench.floor import floor_turns
from bench.measure import interleaved, ratio, stopwatch, table, timed, write
from lossless.compaction import run as sweeps
from lossless.compaction.compactor import CompactionRequest
from lossless.compaction.source_text import SourceMessage, leaf_text, source_message
from lossless.compaction.summarise import SummarySource, available_cores, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.conversations import ChatMessage
    from lossless.compaction.plan import Pass
    from lossless.compaction.summarise import WrittenSummary

SESSION = lossless.Session(key="bench:loop", id="11111111-2222-4333-8444-555555555555")
BUDGET = 128_000
#: The budget of the prompt over history that was never folded.
WIDE_BUDGET = 200_000
#: No conversation here fills this one.
ENDLESS_BUDGET = 1_000_000_000
#: A growing conversation is folded after so many messages.
_STEP = 2_000


def chat(count: int) -> list[ChatMessage]:
    """Turns of a user and an assistant, 1.8 kB a turn."""
    return [message for pair in turns(count // 2) for message in pair]


def grow(path: Path, messages: Sequence[ChatMessage], *, fold: bool = True) -> None:
    """An archive of the messages, folded as it grew."""
    with lossless.open(path, background=False) as engine:
        for start in range(0, len(messages), _STEP):
            engine.append(SESSION, messages[start : start + _STEP])
            while fold and engine.compact(SESSION, budget=BUDGET, force=True).compacted:
                pass


def assembling(lengths: Sequence[int], repeat: int) -> list[dict[str, object]]:
    """A prompt over compacted history of several lengths, and over history that was never folded."""
    whole = 10_000
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cases = {}
        for count, fold in [*((count, True) for count in lengths), (whole, False)]:
            path = Path(folder) / f"{count}-{fold}.db"
            grow(path, chat(count), fold=fold)
            engine = stack.enter_context(lossless.open(path, background=False))
            cases[count, fold] = _assembling(engine, BUDGET if fold else WIDE_BUDGET)
        sizes = {case: run()[1] for case, run in cases.items()}
        figures = interleaved({case: timed(run) for case, run in cases.items()}, repeat)
    short = figures[lengths[0], True]
    rows: list[dict[str, object]] = []
    for (count, fold), figure in figures.items():
        state = f"compacted, {BUDGET // 1000}k budget" if fold else f"nothing folded, {WIDE_BUDGET // 1000}k budget"
        rows.append(
            {
                "what": f"assemble of {count:,} messages, {state}",
                "ours": round(figure.min * 1000, 2),
                "unit": "ms",
                "ratio": round(figure.min / short.min, 2) if fold else None,
                "aim": "<= 5, ratio 1" if fold else "<= 25",
                "about": f"{sizes[count, fold]:,} tokens",
            }
        )
    return rows


def _assembling(engine: lossless.Engine, budget: int) -> Any:
    def run() -> tuple[int, int]:
        prompt = engine.assemble(SESSION, budget=budget)
        return len(prompt.messages), prompt.tokens

    return run


@dataclass(slots=True)
class Extracted:
    """What the extractor did: CPU seconds and summaries."""

    seconds: float = 0.0
    summaries: int = 0


@contextmanager
def watched_extractor() -> Iterator[Extracted]:
    """Counts the CPU time that sweeps spend on writing summaries."""
    watched = Extracted()

    def write_one(*args: Any, **more: Any) -> Any:
        start = time.process_time()
        written = summarise(*args, **more)
        watched.seconds += time.process_time() - start
        watched.summaries += 1
        return written

    before = sweeps.__dict__["summarise"]
    sweeps.__dict__["summarise"] = write_one
    try:
        yield watched
    finally:
        sweeps.__dict__["summarise"] = before


def sweeping(count: int, repeat: int) -> dict[str, object]:
    """What a sweep costs for each summary besides writing it: planning, reading, folding."""
    messages, costs, folds = chat(count), [], 0
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.db"
            grow(path, messages, fold=False)
            with lossless.open(path, background=False) as engine, watched_extractor() as extractor:
                with stopwatch() as watch:
                    while engine.compact(SESSION, budget=BUDGET, force=True).compacted:
                        pass
                folds = extractor.summaries
                costs.append((watch.seconds - extractor.seconds) * 1000 / max(1, folds))
    return {
        "what": f"sweep of {count:,} messages, a summary, without the time of the extractor",
        "ours": round(min(costs), 2),
        "unit": "ms",
        "aim": "<= 10",
        "about": f"{folds} summaries",
    }


@dataclass(slots=True)
class Import:
    """What folding an imported history took: CPU seconds until the last leaf and in all, and seconds on the clock."""

    leaves: int = 0
    leaf_seconds: float = 0.0
    seconds: float = 0.0
    wall: float = 0.0


def importing(count: int, repeat: int) -> list[dict[str, object]]:
    """Folding a history that was imported at once: in one process, and on all cores."""
    messages = chat(count)
    runs: dict[int, list[Import]] = {1: [], 0: []}
    for _ in range(repeat):
        for processes, found in runs.items():
            found.append(_import(messages, processes))
    alone = min(runs[1], key=lambda run: run.leaf_seconds)
    walls = {processes: min(run.wall for run in found) for processes, found in runs.items()}
    return [
        {
            "what": f"folding {count:,} imported messages, the leaves",
            "ours": round(alone.leaf_seconds, 2),
            "unit": "s",
            "aim": "<= 2 for 10,000",
            "about": f"{alone.leaves} leaves; {alone.seconds:.2f} s with condensed summaries",
        },
        {
            "what": f"folding {count:,} imported messages on all cores, on the clock",
            "ours": round(walls[0], 2),
            "unit": "s",
            "ratio": round(walls[0] / walls[1], 2),
            "aim": "ratio < 1",
            "about": f"{available_cores()} cores; one process {walls[1]:.2f} s",
        },
    ]


def _import(messages: Sequence[ChatMessage], processes: int) -> Import:
    run = Import()

    def progress(work: Pass, _written: WrittenSummary | None) -> None:
        if work.depth == 0:
            run.leaves, run.leaf_seconds = run.leaves + 1, time.process_time() - start

    settings = lossless.Settings(summary_processes=processes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        grow(path, messages, fold=False)
        with lossless.open(path, settings, background=False) as engine:
            situation = CompactionRequest(engine.archive.conversations.get(1), BUDGET)
            start, begun = time.process_time(), time.perf_counter()
            engine.loop.fold_import(situation, progress=progress)
            run.seconds, run.wall = time.process_time() - start, time.perf_counter() - begun
    return run


def extracting(count: int, repeat: int) -> list[dict[str, object]]:
    """How much text the extractor reads in a CPU second, in leaves of the usual size."""
    inputs = {"chat": chat(count), "agent": list(agent_conversation(count))}
    with tempfile.TemporaryDirectory() as folder:
        sources = {kind: _leaves(Path(folder) / f"{kind}.db", messages) for kind, messages in inputs.items()}
    texts = {kind: [leaf_text(_lines(source), "UTC") for source in found] for kind, found in sources.items()}
    bytes_of = {kind: sum(len(text.encode()) for text in found) for kind, found in texts.items()}
    figures = interleaved({kind: timed(partial(_extract, found)) for kind, found in sources.items()}, repeat)
    return [
        {
            "what": f"extracting from {kind} messages",
            "ours": round(bytes_of[kind] / 1_000_000 / figure.min, 2),
            "unit": "MB/s",
            "aim": ">= 5",
            "about": f"{len(sources[kind])} leaves, {bytes_of[kind] / 1_000_000:.1f} MB",
        }
        for kind, figure in figures.items()
    ]


def _extract(sources: Sequence[SummarySource]) -> None:
    for source in sources:
        summarise(source)


def _lines(source: SummarySource) -> list[SourceMessage]:
    return [part for part in source.parts if isinstance(part, SourceMessage)]


def _leaves(path: Path, messages: Sequence[ChatMessage]) -> list[SummarySource]:
    """The messages as sources of leaves, as a sweep reads them."""
    most = lossless.Settings().leaf_chunk_tokens
    sources: list[SummarySource] = []
    lines: list[SourceMessage] = []
    tokens = 0
    with lossless.open(path, background=False) as engine:
        report = engine.append(SESSION, messages)
        for stored in engine.archive.messages.many(report.message_ids):
            if tokens + stored.message.tokens > most and lines:
                sources.append(SummarySource(tuple(lines), tokens=tokens))
                lines, tokens = [], 0
            lines.append(source_message(stored))
            tokens += stored.message.tokens
    return [*sources, SummarySource(tuple(lines), tokens=tokens)]


def turning(count: int, repeat: int) -> dict[str, object]:
    """A turn below the threshold, against the floor's."""
    pairs = list(turns(count // 2))
    flat = [message for pair in pairs for message in pair]
    with tempfile.TemporaryDirectory() as folder:
        fresh = (Path(folder) / f"{n}.db" for n in range(10_000))
        figures = interleaved(
            {"floor": lambda: floor_turns(flat, next(fresh)), "ours": lambda: _after_turns(pairs, next(fresh))}, repeat
        )
    return {
        "what": f"after_turn below the threshold, {count:,} messages",
        "ours": round(figures["ours"].each(len(pairs)), 3),
        "unit": "ms",
        "ratio": round(ratio(figures["ours"], figures["floor"]), 2),
        "aim": "ratio <= 2",
        "about": f"floor {figures['floor'].each(len(pairs)):.3f} ms",
    }


def _after_turns(pairs: Sequence[Sequence[ChatMessage]], path: Path) -> float:
    with lossless.open(path, background=False) as engine:
        with stopwatch() as watch:
            for pair in pairs:
                engine.after_turn(SESSION, new_messages=pair, budget=ENDLESS_BUDGET)
        return watch.seconds


def main() -> None:
    """Print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter conversations, fewer runs")
    quick = parser.parse_args().quick
    lengths, repeat = ((1_000, 10_000), 5) if quick else ((1_000, 10_000, 100_000), 15)
    rows = [
        *assembling(lengths, repeat),
        sweeping(4_000 if quick else 10_000, 1 if quick else 3),
        *importing(6_000 if quick else 10_000, 1 if quick else 3),
        *extracting(2_000 if quick else 10_000, 3 if quick else 5),
        turning(2_000 if quick else 10_000, 3 if quick else 5),
    ]
    columns = ("what", "ours", "unit", "ratio", "aim", "about")
    rows = [{column: row.get(column) for column in columns} for row in rows]
    table(rows, "The loop, without a model (CPU)")
    meta = {"input": "turns() and agent_conversation()", "seed": {"turns": 7, "agent": 42}, "quick": quick}
    print(f"\n{write('loop', rows, meta)}")


if __name__ == "__main__":
    main()

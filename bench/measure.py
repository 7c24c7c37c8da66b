"""How every benchmark measures: CPU seconds, several runs, rivals interleaved in one process.

The machine may be shared and noisy, so a lone wall time says nothing: compare figures of one run only.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

K = TypeVar("K")

RESULTS = Path(__file__).parent / "results"
#: Public conversations that are not in the repository; what needs one that is not there is skipped.
DATA = Path(os.environ.get("LOSSLESS_BENCH_DATA") or Path(__file__).parent / "data")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of several runs of one thing, in the order they ran."""

    runs: tuple[float, ...]

    @property
    def min(self) -> float:
        return min(self.runs)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    def each(self, count: int) -> float:
        """Milliseconds for one of `count` equal steps, by the median run."""
        return self.median / count * 1000


@dataclass(slots=True)
class Stopwatch:
    """Holds the CPU seconds of a `with stopwatch()` block once it has ended."""

    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Count the CPU seconds of a block, leaving out what the caller does around it."""
    watch = Stopwatch()
    gc.collect()
    start = time.process_time()
    try:
        yield watch
    finally:
        watch.seconds = time.process_time() - start


def timed(fn: Callable[[], object]) -> Callable[[], float]:
    """`fn` as a case of `interleaved`: a call runs it once and gives its CPU seconds."""

    def run() -> float:
        with stopwatch() as watch:
            fn()
        return watch.seconds

    return run


def cpu(fn: Callable[[], object], repeat: int = 5) -> Cpu:
    """CPU seconds of `fn()`, `repeat` times."""
    return interleaved({"fn": timed(fn)}, repeat)["fn"]


def interleaved(cases: Mapping[K, Callable[[], float]], repeat: int = 5) -> dict[K, Cpu]:
    """Run all cases in turns (a, b, a, b, …), so that noise falls on each of them alike.

    A case returns its own CPU seconds: wrap a plain function in `timed`, or use a `stopwatch` inside.
    """
    runs: dict[K, list[float]] = {name: [] for name in cases}
    for _ in range(repeat):
        for name, case in cases.items():
            runs[name].append(case())
    return {name: Cpu(tuple(seconds)) for name, seconds in runs.items()}


def ratio(ours: Cpu, floor: Cpu) -> float:
    """How many times `floor` ours takes: the median over rounds of one `interleaved` run."""
    return statistics.median(a / b for a, b in zip(ours.runs, floor.runs, strict=True))


def table(rows: Sequence[Mapping[str, object]], title: str = "") -> None:
    """Print rows as an aligned table: the first row's keys are the columns, numbers stand on the right."""
    if title:
        print(f"\n{title}")
    if not rows:
        print("(nothing)")
        return
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    right = [all(_is_number(row.get(column)) for row in rows) for column in columns]
    for line in [columns, ["-" * width for width in widths], *cells]:
        padded = (c.rjust(w) if number else c.ljust(w) for c, w, number in zip(line, widths, right, strict=True))
        print("  ".join(padded).rstrip())


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def write(name: str, rows: Sequence[Mapping[str, object]], meta: Mapping[str, object], folder: Path = RESULTS) -> Path:
    """Keep a benchmark's rows as `bench/results/<name>.json`; `meta` must name its input and its seed."""
    missing = {"input", "seed"} - meta.keys()
    if missing:
        raise ValueError(f"meta of {name!r} does not name its {' and '.join(sorted(missing))}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    result = {"benchmark": name, **meta, "machine": machine(), "rows": list(rows)}
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, object]:
    """What the figures were taken on, as far as it matters for reading them."""
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }

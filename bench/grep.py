"""What a search costs, and that no text makes it fail. `python -m bench.grep`

CPU milliseconds on archives of agent messages (user, assistant, tool calls and results). With `--fuzz 100000`
so many random texts go through every mode as well.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossless
from bench.conversations import agent_conversation
from bench.measure import interleaved, table, timed, write
from lossless.errors import BadInput, BadPattern

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION = lossless.Session(key="bench:grep")
_STEP = 5_000
_SEED = 11
#: What is asked, how, and what it may cost at 10,000 and 100,000 messages.
CASES: tuple[tuple[str, str, dict[str, Any], tuple[float | None, float | None]], ...] = (
    ("newest 50, frequent word", "deploy", {"sort": "recency"}, (5, None)),
    ("ranked, frequent word", "deploy", {}, (25, 150)),
    ("ranked, three frequent words", "rollback schema config", {}, (None, None)),
    ("ranked, a question", "Why did the database migration lock held by the worker fail?", {}, (None, None)),
    ("regex, all rows, with a word in it", r"migration lock \w+ held", {"mode": "regex"}, (60, None)),
    ("regex, all rows, no letters known", r"\d{7}[a-z]\d{9}", {"mode": "regex"}, (60, None)),
    ("letters that are no word, nowhere", "zzqx-73", {}, (None, None)),
)
_PIECES = (
    "\"'*()[]{}^$\\|+?.-_/%:&#~<>=\0\n\t ",
    "aeiou AND OR NOT NEAR the deploy 42",
    "äöüß İı éñ ЁжПривет ελληνικά",
    "数据库迁移 サーバー 한국어 ไทย مرحبا שלום",
    "😀👩\u200d💻🎉 \u200d\ufeff\ufffe\ud800\udfff\U0010ffff",
)


def fill(path: Path, count: int) -> None:
    """An archive of so many messages."""
    with lossless.open(path, background=False) as engine:
        batch: list[Any] = []
        for message in agent_conversation(count):
            batch.append(message)
            if len(batch) == _STEP:
                engine.append(SESSION, batch)
                batch = []
        engine.append(SESSION, batch)


def speed(count: int, repeat: int) -> list[dict[str, object]]:
    """All cases on one archive, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lcm.db"
        fill(path, count)
        settings = lossless.Settings(trigram_index="off", regex_timeout_ms=20_000)
        with lossless.open(path, settings, background=False) as engine:
            cases: dict[str, Callable[[], object]] = {
                name: partial(engine.grep, text, **options) for name, text, options, _ in CASES
            }
            hits = {name: len(case().hits) for name, case in cases.items()}  # type: ignore[attr-defined]
            figures = interleaved({name: timed(case) for name, case in cases.items()}, repeat)
    rows: list[dict[str, object]] = []
    for name, _, _, aims in CASES:
        aim = aims[0] if count <= 10_000 else aims[1]
        rows.append(
            {
                "what": name,
                "messages": count,
                "hits": hits[name],
                "ms": round(figures[name].min * 1000, 1),
                "median ms": round(figures[name].median * 1000, 1),
                "aim": None if aim is None else f"<= {aim:g}",
            }
        )
    return rows


def fuzz(count: int) -> list[dict[str, object]]:
    """Random texts through every mode: each gives hits, a reason for none, or what is wrong with the pattern."""
    dice = random.Random(_SEED)
    outcomes: Counter[tuple[str, str]] = Counter()
    with lossless.open(":memory:", background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": odd_text(dice) + odd_text(dice)} for _ in range(40)])
        modes: list[dict[str, Any]] = [
            *({"sort": sort} for sort in ("relevance", "recency", "hybrid")),
            *({"scope": scope} for scope in ("messages", "summaries", "files")),
            {"mode": "regex"},
        ]
        for _ in range(count):
            text = odd_text(dice)
            for options in modes:
                name = " ".join(options.values())
                try:
                    found = engine.grep(text, **options)
                except BadPattern:
                    outcomes[name, "bad pattern"] += 1
                except BadInput:
                    outcomes[name, "bad input"] += 1
                else:
                    assert found.hits or found.hint, f"nothing found, and no reason: {text!r}"
                    outcomes[name, "hits" if found.hits else "none, with a reason"] += 1
            assert str(engine.recall(text, max_tokens=200)) is not None
    return [{"mode": mode, "outcome": outcome, "texts": texts} for (mode, outcome), texts in sorted(outcomes.items())]


def odd_text(dice: random.Random) -> str:
    """A short text of letters, signs, operators and halves of letters."""
    letters = dice.choice(_PIECES) if dice.random() < 0.6 else "".join(_PIECES)
    pieces = letters.split(" ") if dice.random() < 0.3 else list(letters)
    return "".join(dice.choice(pieces) + (" " if dice.random() < 0.1 else "") for _ in range(dice.randrange(0, 16)))


def main() -> None:
    """Print the tables and keep them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--fuzz", type=int, default=1_000, metavar="N", help="random texts through every mode")
    options = parser.parse_args()
    rows = [row for count in options.messages for row in speed(count, options.repeat)]
    table(rows, "grep, CPU milliseconds")
    write("grep", rows, {"input": "agent_conversation", "seed": 1})
    outcomes = fuzz(options.fuzz)
    table(outcomes, f"{options.fuzz:,} random texts")
    write("grep-fuzz", outcomes, {"input": "random texts", "seed": _SEED})


if __name__ == "__main__":
    main()

"""Recall without a model: the question given verbatim, one archive for all dialogues. `python -m bench.recall`

Recall@k is the share of the gold turns among the first k hits of `engine.grep`, searched in the dialogue's own
conversation. Dates are passed as `created_at`. The development half is what the ranking was tuned on.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

import lossless
from bench import locomo
from bench.measure import table, write
from lossless.llm.embedder import Embedder, has_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

CUTS = (5, 10, 50)
_WORDS = re.compile(r"\w+")
AIMS = {"R@10": 75, "R@50": 88, "NDCG@10": 54, "empty %": 0}


@dataclass(frozen=True, slots=True)
class Score:
    """How well one question was answered."""

    recalls: tuple[float, ...]
    ndcg: float
    is_empty: bool


def score(gold: frozenset[str], hits: list[str]) -> Score:
    """Recall at each cut, and the discounted gain of the first ten."""
    recalls = tuple(len(gold & set(hits[:cut])) / len(gold) for cut in CUTS)
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits[:10]) if hit in gold)
    best = sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))
    return Score(recalls, gain / best, not hits)


def ask(
    engine: lossless.Engine, dialogue: locomo.Dialogue, conversation_id: int, turns: dict[int, str]
) -> list[tuple[int, Score]]:
    """Ask all questions of a dialogue: the category and the score of each."""
    found = []
    for question in dialogue.questions:
        hits = engine.grep(question.text, conversation_id=conversation_id).hits
        turn_ids = [turns[hit.id] for hit in hits if isinstance(hit.id, int)]
        found.append((question.category, score(question.gold, turn_ids)))
    return found


def plain_bm25(dialogues: Sequence[locomo.Dialogue]) -> list[dict[str, object]]:
    """What SQLite's own full-text search finds: any word of the question, stemmed, ranked by bm25."""
    scores: list[Score] = []
    for dialogue in dialogues:
        connection = apsw.Connection(":memory:")
        connection.execute("CREATE VIRTUAL TABLE turns USING fts5 (id UNINDEXED, text, tokenize = 'porter unicode61')")
        connection.executemany("INSERT INTO turns VALUES (?, ?)", [(turn.id, turn.text) for turn in dialogue.turns])
        for question in dialogue.questions:
            words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORDS.findall(question.text.lower())))
            found = connection.execute("SELECT id FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT 50", (words,))
            scores.append(score(question.gold, [str(hit[0]) for hit in found]))
        connection.close()
    return [row("all", scores)]


def row(name: str, scores: list[Score]) -> dict[str, object]:
    """The means of some questions."""
    count = len(scores)
    recalls = {
        f"R@{cut}": round(100 * sum(one.recalls[place] for one in scores) / count, 1) for place, cut in enumerate(CUTS)
    }
    ndcg = round(100 * sum(one.ndcg for one in scores) / count, 1)
    empty = round(100 * sum(one.is_empty for one in scores) / count, 1)
    return {"questions": name, "count": count, **recalls, "NDCG@10": ndcg, "empty %": empty}


def random_vectors(texts: Sequence[str], _seconds: float) -> list[Sequence[float]]:
    """What an embedder says that knows nothing: the same for the same text."""
    sources = [random.Random(text) for text in texts]
    return [[source.gauss(0, 1) for _ in range(256)] for source in sources]


def measure(path: Path, embedder: Embedder | None = None) -> tuple[list[dict[str, object]], float]:
    """A row for each category and one for all; and the CPU milliseconds of a question."""
    scores: defaultdict[str, list[Score]] = defaultdict(list)
    dialogues = locomo.load(path)
    with lossless.open(":memory:", background=False) as engine:
        stored = [(dialogue, *locomo.store(engine, dialogue)) for dialogue in dialogues]
        if embedder is not None:
            engine.archive.embedder = embedder
            engine.admin.embed_messages(600)
        start = time.process_time()
        for dialogue, conversation_id, turns in stored:
            for category, one in ask(engine, dialogue, conversation_id, turns):
                scores["all"].append(one)
                scores[locomo.CATEGORIES.get(category, str(category))].append(one)
        spent = time.process_time() - start
    names = ["all", *sorted(set(scores) - {"all"})]
    return [row(name, scores[name]) for name in names], 1000 * spent / len(scores["all"])


def main() -> None:
    """Print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=locomo.DEFAULT, help="dialogues in the format of LoCoMo")
    path: Path = parser.parse_args().file
    rows, each = measure(path)
    table(rows, f"{path.name}, question verbatim, full_text by relevance; {each:.1f} ms CPU a question")
    table([{"aim": name, "value": value} for name, value in AIMS.items()], "aims for all")
    plain = plain_bm25(locomo.load(path))
    table(plain, "plain bm25 over the turns")
    write("recall-bm25", plain, {"input": path.name, "seed": None, "tuned": "nothing"})
    if has_numpy():
        useless, each = measure(path, Embedder("random", random_vectors))
        table(useless[:1], f"the same with an embedder that knows nothing, aim: R@10 -0.5 at most; {each:.1f} ms CPU")
        write("recall-random-embedder", useless, {"input": path.name, "seed": "the text", "tuned": "nothing"})
    write("recall", rows, {"input": path.name, "seed": None, "tuned": "the ranking was tuned on the development half"})


if __name__ == "__main__":
    main()

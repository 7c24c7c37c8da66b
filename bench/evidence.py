"""Evidence in the prompt: what a model sees of folded history before it asks. `python -m bench.evidence`

Each dialogue is folded to a budget; then each of its questions is the newest message of a user, in turn. Counted is
whether all turns that answer it stand in the assembled prompt word for word, with and without evidence, and how many
tokens the evidence takes. The scores above which something is quoted were set on the development half.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lossless
from bench import locomo
from bench.measure import table, write
from lossless.maintenance.prompts import find_evidence, render_evidence
from lossless.model.tokens import estimate_tokens
from lossless.testing import openai_chat, sample_conversation

BUDGET = 8_000
AIMS = {"all gold %": 70, "most tokens": 1_500, "small talk %": 5, "CPU ms": 20}
SMALL_TALK = Path(__file__).parents[1] / "tests/recall/small_talk.txt"
LONG = 100_000
#: Each of its words is in hundreds or thousands of the messages of the long conversation.
FREQUENT = "Which file was changed to fix the error, and what did the tests of the worker say?"


@dataclass(frozen=True, slots=True)
class Shown:
    """What one question brought into the prompt."""

    category: int
    is_whole: bool
    was_whole: bool
    evidence: int
    tokens: int


def plain(text: str) -> str:
    """A text as it is compared: single blanks, without what escaping adds."""
    return " ".join(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").split())


def folded(engine: lossless.Engine, dialogue: locomo.Dialogue, budget: int) -> None:
    """Store a dialogue and fold it as turns would have."""
    locomo.store(engine, dialogue)
    engine.compact(dialogue.session, budget=budget, force=True)


def ask(engine: lossless.Engine, dialogue: locomo.Dialogue, question: locomo.Question, budget: int) -> Shown:
    """Ask one question as the newest message, and take it back."""
    texts = {turn.id: plain(turn.text) for turn in dialogue.turns}
    made = engine.assemble(dialogue.session, budget=budget, prompt=question.text, record=False)
    blocks = [block.content for block in made.evidence]
    whole = plain("\n".join(part.content for part in made.parts))
    rest = whole
    for block in blocks:
        rest = rest.replace(plain(block), "")
    gold = [texts[id_] for id_ in question.gold]
    return Shown(
        question.category,
        all(text in whole for text in gold),
        all(text in rest for text in gold),
        made.receipt.tokens_by_kind.get("evidence", 0),
        made.tokens,
    )


def row(name: str, shown: list[Shown]) -> dict[str, object]:
    """The means of some questions."""
    count = len(shown)
    return {
        "questions": name,
        "count": count,
        "all gold %": round(100 * sum(one.is_whole for one in shown) / count, 1),
        "without %": round(100 * sum(one.was_whole for one in shown) / count, 1),
        "mean tokens": round(sum(one.evidence for one in shown) / count),
        "most tokens": max(one.evidence for one in shown),
        "mean prompt": round(sum(one.tokens for one in shown) / count),
        "most prompt": max(one.tokens for one in shown),
    }


def questions(path: Path, budget: int) -> list[dict[str, object]]:
    """A row for each category, and one for all."""
    found: dict[str, list[Shown]] = {"all": []}
    for dialogue in locomo.load(path):
        with lossless.open(":memory:", background=False) as engine:
            folded(engine, dialogue, budget)
            for question in dialogue.questions:
                one = ask(engine, dialogue, question, budget)
                found["all"].append(one)
                found.setdefault(locomo.CATEGORIES.get(one.category, str(one.category)), []).append(one)
    return [row(name, some) for name, some in found.items()]


def small_talk(path: Path, budget: int) -> list[dict[str, object]]:
    """How much of small talk brings evidence, in each dialogue and in the sample conversation."""
    texts = SMALL_TALK.read_text(encoding="utf-8").splitlines()
    added = []
    for dialogue in locomo.load(path):
        with lossless.open(":memory:", background=False) as engine:
            folded(engine, dialogue, budget)
            made = [engine.assemble(dialogue.session, budget=budget, prompt=text, record=False) for text in texts]
            added += [bool(one.evidence) for one in made]
    return [{"small talk": len(texts), "dialogues": len(added) // len(texts), "added %": _percent(added)}]


def _percent(values: list[bool]) -> float:
    return round(100 * sum(values) / len(values), 1)


def long_conversation(count: int, budget: int) -> list[dict[str, object]]:
    """CPU of a prompt in a long conversation, with and without evidence."""
    session, asked = lossless.Session(key="long"), "Which port did the harbour master of Vestby assign to the proxy?"
    rows: list[dict[str, object]] = []
    chat: list[Any] = list(openai_chat(sample_conversation(count)))
    told = "The harbour master of Vestby assigned port 8471 to the proxy."
    chat.insert(count // 20, {"role": "user", "content": told})
    with lossless.open(":memory:", background=False) as engine:
        engine.append(lossless.Session(key="other"), openai_chat(sample_conversation(count // 50)))
        engine.append(session, chat)
        engine.compact(session, budget=budget, force=True)
        engine.append(session, [{"role": "user", "content": asked}])
        for name in ("first call, nothing chosen yet", "later calls"):
            times = []
            for _ in range(9):
                start = time.process_time()
                made = engine.assemble(session, budget=budget, record=name == "later calls")
                times.append(1000 * (time.process_time() - start))
            quoted = made.receipt.tokens_by_kind.get("evidence", 0)
            rows.append({"messages": count, "prompt": name, "CPU ms": round(sorted(times)[4], 1), "evidence": quoted})
        for name, words in (("a rare word", asked), ("frequent words", FREQUENT)):
            times = []
            for _ in range(9):
                start = time.process_time()
                found = find_evidence(engine.archive, session, words, 1_500, datetime.now(UTC), frozenset())
                times.append(1000 * (time.process_time() - start))
            alone = {"prompt": f"choosing evidence alone, {name}", "CPU ms": round(sorted(times)[4], 1)}
            rows.append({"messages": count, **alone, "evidence": estimate_tokens(render_evidence(found))})
        off = lossless.Engine(engine.archive, lossless.Settings(evidence=False), background=False)
        times = []
        for _ in range(9):
            start = time.process_time()
            off.assemble(session, budget=budget, record=False)
            times.append(1000 * (time.process_time() - start))
        rows.append({"messages": count, "prompt": "without evidence", "CPU ms": round(sorted(times)[4], 1)})
    return rows


def main() -> None:
    """Print the tables and keep them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=locomo.DEFAULT, help="dialogues in the format of LoCoMo")
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--messages", type=int, default=LONG, help="length of the conversation that is timed")
    given = parser.parse_args()
    tables = {
        "evidence": questions(given.file, given.budget),
        "evidence-small-talk": small_talk(given.file, given.budget),
        "evidence-cpu": long_conversation(given.messages, given.budget),
    }
    for name, rows in tables.items():
        table(rows, f"{name}: {given.file.name}, budget {given.budget:,}")
        write(name, rows, {"input": given.file.name, "seed": None, "tuned": "scores were set on the development half"})
    table([{"aim": name, "value": value} for name, value in AIMS.items()], "aims")


if __name__ == "__main__":
    main()

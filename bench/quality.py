"""The page of figures, from what the benchmarks have written. `python -m bench.quality docs/quality.md`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import RESULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = """\
# Quality in figures

Made by `make bench` from the results of `bench/`. All figures are without a model and without a key. LoCoMo is a public
set of long dialogues between two people, with questions and the turns that answer them. The ranking was tuned on the
five development dialogues that these figures are of, so expect a little less elsewhere.

## Search: the turns that answer a question

The question is given verbatim; R@k is the share of the answering turns among the first k hits.

{search}

## Evidence in the prompt

The question is the newest message, the history is folded, the budget is 8,000 tokens.

{evidence}

`all gold %`: all answering turns are in the prompt verbatim; `without %`: the same without evidence. Messages of small
talk that get evidence: {small_talk}.

## Answers kept in summaries

The share of answers whose words are in the summaries, by how long the summaries are.

{summaries}

## Speed

CPU time on {machine}; `floor` is the same rows written by plain SQL.

{speed}

## Size

An archive on disk, with its search index, against what came in.

{size}

## Figures that others publish

Few measure the same thing. Answers graded by a model depend on that model, and say little about the memory below it.

| system | figure | source | comparable |
|---|---|---|---|
| lossless-claw's `lcm_grep`, question verbatim | R@10 0.1 | measured on all ten dialogues | yes |
| lossless-claw's `lcm_grep`, all keywords | R@10 9.1 | measured on all ten dialogues | yes |
| all-MiniLM embeddings, cosine | R@10 41.4 | measured on all ten dialogues | yes |
| NeuromemoryAI | R@10 1.6 | its `benchmarks/FINAL_REPORT.md`, February 2025 | nearly: its own units of memory |
| cognitive-memory | 42.4 % right answers | its page of LoCoMo results | no: answers graded by a model |
| MemBlock | R@5 97.2 | its benchmark page, LongMemEval | no: whole sessions, another set |
"""


def rows_of(name: str) -> list[dict[str, Any]]:
    """What a benchmark has written; empty when it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> str:
    """Rows as a Markdown table."""
    if not rows:
        return "*Not measured in this run.*"
    names = list(columns or rows[0])
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    lines += [
        "| " + " | ".join("–" if row.get(name) is None else str(row[name]) for name in names) + " |" for row in rows
    ]
    return "\n".join(lines)


def search_rows() -> list[dict[str, Any]]:
    """Ours by kind of question, and plain bm25."""
    ours = [
        row | {"questions": "all" if row["questions"] == "all" else f"· {row['questions']}"}
        for row in rows_of("recall")
    ]
    return [*ours, *(row | {"questions": "all, plain bm25"} for row in rows_of("recall-bm25"))]


def page() -> str:
    """The page, from the newest results."""
    path = RESULTS / "ingest.json"
    machine = json.loads(path.read_text(encoding="utf-8"))["machine"] if path.exists() else {}
    where = f"{machine.get('cores')} shared cores, Python {machine.get('python')}, SQLite {machine.get('sqlite')}"
    speed = [
        {"what": row["what"], "ms": row["ours ms"], "floor": row.get("ratio")}
        for row in rows_of("ingest")
        if "ours ms" in row
    ]
    speed += [{"what": row["what"], "ms": row["ours"], "floor": None} for row in rows_of("loop") if row["unit"] == "ms"]
    sizes = [
        {"what": row["what"], "measured": row["ratio"], "aim": row["aim"]}
        for row in rows_of("ingest")
        if "ours ms" not in row
    ]
    return PAGE.format(
        search=table(search_rows(), ("questions", "count", "R@5", "R@10", "R@50", "NDCG@10")),
        evidence=table(
            rows_of("evidence"), ("questions", "count", "all gold %", "without %", "mean tokens", "most tokens")
        ),
        small_talk=", ".join(f"{row['added %']} %" for row in rows_of("evidence-small-talk")) or "not measured",
        summaries=table(rows_of("retention-summaries")),
        machine=where,
        speed=table([{"what": row["what"], "ms": row["ms"], "× floor": row["floor"]} for row in speed]),
        size=table(sizes),
    )


def main() -> None:
    """Write the page to the path that is given, or print it."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main()

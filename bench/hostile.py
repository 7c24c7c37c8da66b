"""Texts that are made to be slow: what eight times as much of one costs. `python -m bench.hostile`

CPU milliseconds for a text and for one of eight times its length. Work in line with the length makes a ratio of
about 8, work that grows with its square one of 64. Where only so much of a text is looked at, the ratio is near 1.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from bench.measure import interleaved, ratio, table, timed, write
from lossless.compaction.extract import condense, extract
from lossless.compaction.source_text import SourceMessage, SourceSummary, clean_source, fallback_summary
from lossless.files.explore import summarise
from lossless.ingest.sequences import overlap
from lossless.llm.response import strip_reasoning
from lossless.model.identity import canonical_content
from lossless.model.search_text import extra_tokens, passages
from lossless.recall.query import TermFinder, parse_query
from lossless.recall.results import best_snippet

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 8
#: More than this is not in line with the length; noise stays below it.
LINEAR = 2.0 * TIMES
_START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_FRAME = 'Conversation info (untrusted metadata):\n```json\n{"a": 1, "history_count": 1}\n```'
_SENDER = "\n\nSender (untrusted metadata):\n```json\n{}\n```"
_HISTORY = "\n\nChat history (untrusted metadata):\n```json\n[{}]\n```"
_FINDER = TermFinder(parse_query("deploy migration lock d a").terms)
_CODE = ("a.py", "a.js", "a.java", "a.rb", "a.html", "a.css", "a.sql", "a.md", "a.csv", "a.json", "a.log", "a.xml")


def _lay(text: str) -> object:
    """A letter is a message; the window is what is stored, and one message more."""
    marks = [letter.encode() for letter in text]
    return overlap([*marks, b"new"], marks)


def _explore(name: str, text: str) -> object:
    return summarise(text.encode(), name, None)


#: What reads a text, and how long the smaller text is in characters.
READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "identity": (partial(canonical_content, "user"), 100_000),
    "passages": (passages, 100_000),
    "words of the index": (extra_tokens, 20_000),
    "a question": (parse_query, 100_000),
    "matches": (_FINDER.find, 50_000),
    "snippet": (lambda text: best_snippet(text, _FINDER), 50_000),
    "what a summariser reads": (clean_source, 100_000),
    "extract": (lambda text: extract([SourceMessage("user", _START, text, None)], 2_400), 10_000),
    "condense": (lambda text: condense([SourceSummary(_START, _START, text)], 2_000), 10_000),
    "fallback": (lambda text: fallback_summary(text, 512), 20_000),
    "thoughts taken out": (strip_reasoning, 100_000),
    "a window over the rows": (_lay, 500),
    **{f"{name} explored": (partial(_explore, name), 100_000) for name in _CODE},
}

#: What is repeated until the text is long enough, with what comes before and behind.
PIECES: dict[str, tuple[str, str, str]] = {
    repr(piece)[1:-1]: ("", piece, "")
    for piece in (
        *("a", "aA", "0A", "d", "数", "é", "🎉", "ـُ", "+", ".", "#", '"', "(", "[", "{", "\n", " ", " \t", "\u00a0"),
        *("x y ", ". ", "a, ", "A: ", "AB ", "C++", "\\b", "\n``", '{"a":', "deploy", "deploy migration lock "),
        *("<think>", "<a ", "<h1>", "<svg ", "int a(", "public static ", "import ", "\n- a(b, c", "data:image/"),
        *("<relevant-memories ", "<relevant-memories>", "Untrusted context (metadata", "MEDIA: ", "x <think> "),
        *("ignore previous ", "forget your ", "Say it. ", "[2026-01-05 09:00 "),
    )
} | {
    "blanks before the end": ("", " ", "end"),
    "frames": (_FRAME, _SENDER, "\n\nhi"),
    "histories": (_FRAME, _HISTORY, "\n\nhi"),
    "headings": ("Delivery:", "\n\nConversation info (untrusted metadata):", ""),
    "half a heading": (f"{_FRAME}\n\nChat history (untrusted", "(untrusted:", ""),
    "an open fence": ("Conversation info (untrusted metadata):\n```json\n", "\n``", ""),
}


def text_of(piece: tuple[str, str, str], chars: int) -> str:
    """A text of about so many characters."""
    first, again, last = piece
    return first + again * (chars // len(again)) + last


def measured(reader: str, piece: str, repeat: int) -> dict[str, object]:
    """One row: a text, and eight times as much of it, in turns."""
    read, chars = READERS[reader]
    sizes = {times: text_of(PIECES[piece], chars * times) for times in (1, TIMES)}
    figures = interleaved({times: timed(partial(read, text)) for times, text in sizes.items()}, repeat)
    return {
        "reader": reader,
        "text": piece,
        "chars": chars * TIMES,
        "ms": round(figures[TIMES].min * 1000, 1),
        "ratio": round(ratio(figures[TIMES], figures[1]), 1),
    }


def worst(rows: list[dict[str, object]], floor_ms: float) -> list[dict[str, object]]:
    """Of each reader the row that grows fastest, of those that take long enough to tell."""
    found: dict[object, dict[str, object]] = {}
    for row in sorted(rows, key=lambda row: (float(str(row["ms"])) >= floor_ms, float(str(row["ratio"])))):
        found[row["reader"]] = row | {"aim": f"<= {LINEAR:g}"}
    return [found[reader] for reader in READERS if reader in found]


def main() -> None:
    """Print the table and keep all rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--readers", nargs="*", default=list(READERS), choices=list(READERS), metavar="NAME")
    options = parser.parse_args()
    rows = [measured(reader, piece, options.repeat) for reader in options.readers for piece in PIECES]
    table(worst(rows, floor_ms=20), f"{TIMES} times as much text: of each reader the one that grows fastest")
    write("hostile", rows, {"input": "repeated pieces", "seed": 0})


if __name__ == "__main__":
    main()

"""The estimate for budgets against real tokenizers, by kind of text. `python -m bench.tokens [--gpt-tokenizer DIR]`

Pieces of at least 2 kB of each kind: the real count over the estimate, by cl100k and o200k, whichever counts more
(the most) and less (the least). At most 1.02 is asked everywhere, at least 0.85 of English.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import stopwatch, table, write
from bench.token_texts import SEED, kinds
from lossless.model.budget import budget_tokens
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PIECE, MOST_PIECES = 2_400, 40
_COUNT = """
const read = require("fs").readFileSync(0, "utf8");
const pieces = JSON.parse(read), found = [];
for (const name of ["cl100k_base", "o200k_base"]) {
  const {encode} = require(`gpt-tokenizer/cjs/encoding/${name}`);
  found.push(pieces.map(piece => encode(piece, {disallowedSpecial: new Set()}).length));
}
console.log(JSON.stringify(found));
"""
_HOW = """No tokenizer was found. Either of these will do:
  npm install gpt-tokenizer          (in a folder DIR; then: python -m bench.tokens --gpt-tokenizer DIR)
  pip install tiktoken               (with its tables in the folder that TIKTOKEN_CACHE_DIR names)"""

Counts = list[list[int]]


def counter(folder: str | None) -> Callable[[Sequence[str]], Counts] | None:
    """What counts pieces by cl100k and by o200k, if something here can."""
    if os.environ.get("TIKTOKEN_CACHE_DIR"):
        try:
            import tiktoken
        except ImportError:
            pass
        else:
            both = [tiktoken.get_encoding(name) for name in ("cl100k_base", "o200k_base")]
            return lambda pieces: [[len(one.encode(p, disallowed_special=())) for p in pieces] for one in both]
    root = Path(folder or ".").resolve()
    if shutil.which("node") is None or not (root / "node_modules" / "gpt-tokenizer").is_dir():
        return None
    return lambda pieces: _by_node(pieces, root)


def _by_node(pieces: Sequence[str], root: Path) -> Counts:
    asked = json.dumps(list(pieces))
    done = subprocess.run(
        ["node", "-e", _COUNT], input=asked, capture_output=True, text=True, check=True, cwd=root, timeout=600
    )
    counts: Counts = json.loads(done.stdout)
    return counts


def pieces_of(text: str) -> list[str]:
    """Some pieces of a text, evenly spread, each at least 2 kB."""
    starts = range(0, max(len(text) - PIECE, 1), PIECE)
    return [text[start : start + PIECE] for start in starts[:: max(1, len(starts) // MOST_PIECES)]]


def main() -> None:
    """Print the table, and say how to get a tokenizer where there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpt-tokenizer", metavar="DIR", help="the folder in which it was installed")
    count = counter(parser.parse_args().gpt_tokenizer)
    if count is None:
        print(_HOW)
        return
    rows: list[dict[str, object]] = []
    for kind, text in kinds().items():
        pieces = pieces_of(text)
        counted = list(zip(*count(pieces), strict=True))
        guesses = [budget_tokens(piece) for piece in pieces]
        most = max(max(both) / guess for both, guess in zip(counted, guesses, strict=True))
        least = min(min(both) / guess for both, guess in zip(counted, guesses, strict=True))
        stored = max(max(both) / estimate_tokens(piece) for both, piece in zip(counted, pieces, strict=True))
        missed = most > 1.02 or (least < 0.85 and kind.startswith("English"))
        rows.append({
            "kind of text": kind, "pieces": len(pieces), "most": round(most, 3), "least": round(least, 3),
            "stored count, most": round(stored, 2), "target": "missed" if missed else "met",
        })  # fmt: skip
    table(rows, "real tokens over the estimate for budgets")
    whole = "".join(kinds().values())
    with stopwatch() as watch:
        budget_tokens(whole)
    print(f"\n{len(whole.encode()) / watch.seconds / 1e6:.0f} MB of text a second of CPU")
    write("tokens", rows, {"input": "bench/token_texts.py", "seed": SEED})


if __name__ == "__main__":
    main()

"""How well texts match a prompt, in any script: for eviction that looks at what is being asked."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from lossless.model.index_text import grams, unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
#: Words that say nothing about a topic; a light list, as rare terms weigh more anyway.
_STOP_WORDS = """
an and are as at be but by can did do does for from had has have he her his how if in into is it its me my no
not of on or our she so that the their them then there they this to us was we were what when where which who
why will with would you your der die das und ist ein eine nicht le la les et est un une el los las es que
en de du des не на что по это как os um uma het een van
"""
_STOP = frozenset(_STOP_WORDS.split())
#: The usual weights of BM25: how fast repeats stop counting, and how much long texts pay.
_SATURATION = 1.2
_LENGTH = 0.75


def terms(text: str) -> list[str]:
    """The words of a text in lower case, and pairs of letters where words have no blanks between them.

    >>> terms("Why did the DEPLOY of web_app fail? 数据库")
    ['deploy', 'web', 'app', 'fail', '数据', '据库']
    """
    folded = text.casefold()
    found = []
    for word in _WORD.findall(folded):
        runs = unspaced_runs(word)
        for run in runs:
            found += grams(run)[:-1] or [run]
        rest = _without(word, runs)
        if len(rest) > 1 and rest not in _STOP:
            found.append(rest)
    return found


def _without(word: str, runs: Sequence[str]) -> str:
    for run in runs:
        word = word.replace(run, "")
    return word


def relevance(prompt: str, texts: Sequence[str]) -> tuple[float, ...]:
    """A score for each text: 0 when it shares no term with the prompt, more for rarer shared terms.

    Length is evened out, so that a short remark is not favoured over a long answer.
    """
    asked = set(terms(prompt))
    if not asked or not texts:
        return (0.0,) * len(texts)
    counts = [Counter(terms(text)) for text in texts]
    lengths = [max(1, count.total()) for count in counts]
    mean = sum(lengths) / len(lengths)
    spread = {term: sum(term in count for count in counts) for term in sorted(asked)}
    weight = {t: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for t, n in spread.items() if n}

    def score(count: Counter[str], length: int) -> float:
        slack = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        return sum(w * count[t] * (_SATURATION + 1) / (count[t] + slack) for t, w in weight.items())

    return tuple(map(score, counts, lengths))

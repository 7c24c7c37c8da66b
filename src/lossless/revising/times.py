"""Writing without times: what a model reads of a history, without the moments at which it was said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossless.llm.base import Complete, Completion, Prompt

_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d \S+"
_MESSAGE = re.compile(rf"^\[{_MOMENT} \| ", re.MULTILINE)
_SUMMARY = re.compile(rf"^\[{_MOMENT}(?: - {_MOMENT})?\]$", re.MULTILINE)


def without_times(text: str) -> str:
    """The text of a prompt whose headers over messages and summaries name no times.

    >>> without_times("[2026-01-05 09:00 UTC | user]\\nAt 9.")
    '[user]\\nAt 9.'
    >>> without_times("[2026-01-05 09:00 UTC - 2026-01-06 10:00 UTC]\\nWords.")
    '[summary]\\nWords.'
    """
    return _SUMMARY.sub("[summary]", _MESSAGE.sub("[", text))


def timeless(complete: Complete) -> Complete:
    """The same model, which is not told when anything was said."""

    def ask(prompt: Prompt, /) -> Completion:
        return complete(replace(prompt, user=without_times(prompt.user)))

    return ask

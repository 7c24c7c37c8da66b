"""One summary, whatever happens: ask a model, ask it for less, extract, cut; or leave the source as it is.

A result counts only when it is smaller than what it stands for. Refused credentials propagate, and
then nothing is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from lossless.compaction.extractive import EXPAND, NOTHING_ELSE, condense, extract
from lossless.compaction.fallback import DIRECTIVE_OMITTED, fallback, without_directives, without_overrides
from lossless.compaction.prompts import condensed_target, leaf_target, render
from lossless.compaction.source_text import (
    Line,
    Section,
    condensed_text,
    file_ids_in,
    leaf_text,
    without_reasoning,
)
from lossless.errors import GuardOpen, ModelAuth, ModelBadAnswer, ModelDenied, ModelError
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.compaction.prompts import Mode, SummaryPrompt

Level: TypeAlias = Literal["normal", "aggressive", "extractive", "fallback", "capped"]
OnFailure: TypeAlias = Literal["extractive", "raise"]

#: The failure of a model whose answers were not smaller than the source.
NOT_SMALLER = "not_smaller"
ISOLATED_PREVIOUS = "(not available: neighbouring segments are being summarised at the same time)"
ISOLATED_NOTE = "[Summarised without the context before it]"

_MODES: tuple[Mode, ...] = ("normal", "aggressive")
_FENCE = re.compile(r"```[\w-]*\n(.*)\n```", re.DOTALL)
#: More than any summary has: what a model says beyond it is not even read.
_MOST_CHARS = 400_000
#: An answer up to this length that begins like this is no summary, but the word that there will be none.
_REFUSAL_CHARS = 600
_REFUSAL = re.compile(
    r"""(?: (?:i['’]?m\ |i\ am\ )? (?:very\ |so\ )? (?:sorry|afraid) | (?:my\ |i\ )? apolog\w+ | unfortunately
          | as\ an\ ai\b [^.,]{0,40} )?
        [\s,.:;–—-]* (?:but\ |however,?\ |that\ )?
        i (?:\ am|['’]m)? [ ]
        (?: (?:must\ |have\ to\ )? (?:decline|refuse)\b
          | (?:can\ ?not|can['’]?t|couldn['’]?t|won['’]?t|will\ not|unable|not\ able|not\ allowed|do\ not|don['’]t)\b
            [^.\n]{0,80} \b (?:help|assist|comply|summari[sz]e|provide|do\ th(?:at|is)|continue|process|engage|fulfil\w*
                              |complete|discuss|share|create|produce)\b )""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*(?=\s|$)|\n")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered; `incomplete` when it was cut off before its end."""

    text: str
    model: str
    incomplete: bool = False


class Ask(Protocol):
    """Sends one prompt to a model. Raises a `ModelError`, or `GuardOpen` when no call is allowed."""

    def __call__(self, prompt: SummaryPrompt, /) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Source:
    """What one summary is to stand for: messages for a leaf (depth 0), summaries for a condensed one."""

    parts: tuple[Line, ...] | tuple[Section, ...]
    depth: int = 0
    #: What the parts weigh in the context; the size of their text when not given.
    tokens: int | None = None
    previous_context: str = ""
    #: Neighbours are summarised at the same time, so there is no previous context to give.
    is_isolated: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long summaries should be, and how much longer a model's may get before it is cut."""

    leaf_target_tokens: int = 2_400
    condensed_target_tokens: int = 2_000
    overage_factor: float = 3.0
    fallback_max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Wording:
    """How the prompts read: the operator's instructions, the override folder, the zone of the times."""

    instructions: str = ""
    folder: Path | None = None
    timezone: str = "UTC"


_ENDING = f"\n{EXPAND}{NOTHING_ELSE}"
_SIZES = Sizes()
_WORDING = Wording()


@dataclass(frozen=True, slots=True)
class Written:
    """A summary that is smaller than its source."""

    text: str
    level: Level
    tokens: int
    #: The model that wrote it, or `EXTRACTIVE_MODEL` when none did.
    model: str
    #: Model calls that were made for it, failed ones included.
    calls: int = 0
    file_ids: tuple[str, ...] = ()
    #: Why no model wrote it: an error's code, or `NOT_SMALLER`; None when one did or none was asked.
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What became of asking a model: a summary, or the reason why there is none."""

    text: str | None
    level: Level = "normal"
    model: str = ""
    calls: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """A source with its text, its weight in the context, and how to write about it."""

    source: Source
    text: str
    weight: int
    sizes: Sizes
    wording: Wording

    def target(self, mode: Mode = "normal") -> int:
        if self.source.depth == 0:
            return leaf_target(estimate_tokens(self.text), self.sizes.leaf_target_tokens, mode)
        return condensed_target(self.sizes.condensed_target_tokens)


def summarise(
    source: Source,
    ask: Ask | None = None,
    *,
    sizes: Sizes = _SIZES,
    wording: Wording = _WORDING,
    on_failure: OnFailure = "extractive",
) -> Written | None:
    """Write the summary of a source, or return None when no level makes it smaller.

    Without `ask` it is extracted at once. A model that fails is replaced by extraction, or its error is
    raised when `on_failure` says so. `ModelAuth` is always raised. A source without words costs no call.
    """
    if not any(part.is_meaningful for part in source.parts):
        return None
    text = _text(source, wording.timezone)
    weight = estimate_tokens(text) if source.tokens is None else source.tokens
    job = _Job(source, text, weight, sizes, wording)
    attempt = _ask_model(job, ask, on_failure) if ask else _Attempt(None)
    if attempt.text is None:
        attempt = _without_model(job, attempt)
    if attempt.text is None:
        return None
    found = (*(file_id for part in source.parts for file_id in part.file_ids), text)
    return Written(
        text=attempt.text,
        level=attempt.level,
        tokens=estimate_tokens(attempt.text),
        model=attempt.model,
        calls=attempt.calls,
        file_ids=file_ids_in(found),
        failure=attempt.failure,
    )


def capped(text: str, target_tokens: int, factor: float) -> str | None:
    """Text cut to `ceil(target * factor)` tokens with a note that says so; None when it is not longer.

    The note is the longest that fits; the line of what to expand stays last.
    """
    most, size = ceil(target_tokens * factor), estimate_tokens(text)
    if size <= most:
        return None
    body, expand = _parted(text)
    notes = (f"[Capped from {size} tokens to ~{most}]", f"[Capped to ~{most}]", "[Capped]")
    for last in (expand or EXPAND + NOTHING_ELSE, EXPAND + NOTHING_ELSE, ""):
        for note in notes:
            ending = "\n".join(["", note, *([last] if last else [])])
            if estimate_tokens(ending) <= most // 2:
                return cut_to_tokens(body, most - estimate_tokens(ending)).rstrip() + ending
    return cut_to_tokens(body, most).rstrip()


def tidied(answer: Answer) -> str:
    """An answer as a summary: no reasoning, no fence, no orders to a model, the last line in its place.

    Empty when nothing else is left, and when the model refused.
    """
    text = without_reasoning(answer.text[:_MOST_CHARS]).strip()
    if is_refusal(text):
        return ""
    if fence := _FENCE.fullmatch(text):
        text = fence[1].strip()
    body, expand = _parted(without_overrides(text))
    if answer.incomplete and not expand:
        body = _without_broken_end(body)
    if not body.replace(DIRECTIVE_OMITTED, "").strip():
        return ""
    return f"{body}\n{expand or EXPAND + NOTHING_ELSE}"


def is_refusal(text: str) -> bool:
    """Whether a model says that it will not summarise, instead of doing so.

    >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("Anna said: I can't help with the move.")
    (True, False)
    """
    return len(text) <= _REFUSAL_CHARS and _REFUSAL.match(text) is not None


def _ask_model(job: _Job, ask: Ask, on_failure: OnFailure) -> _Attempt:
    calls = 0
    for mode in _MODES:
        prompt = _prompt(job, mode)
        try:
            answer = ask(prompt)
        except ModelAuth:
            raise
        except (ModelError, GuardOpen) as error:
            if on_failure == "raise":
                raise
            was_called = not isinstance(error, (ModelDenied, GuardOpen))
            return _Attempt(None, calls=calls + was_called, failure=error.code)
        calls += 1
        summary = tidied(answer)
        if not summary:
            return _Attempt(None, calls=calls, failure=ModelBadAnswer.code)
        if job.source.is_isolated:
            summary = f"{ISOLATED_NOTE}\n{summary}"
        if estimate_tokens(summary) < job.weight:
            cut = capped(summary, prompt.target_tokens, job.sizes.overage_factor)
            return _Attempt(cut or summary, "capped" if cut else mode, answer.model, calls)
    return _Attempt(None, calls=calls, failure=NOT_SMALLER)


def _prompt(job: _Job, mode: Mode) -> SummaryPrompt:
    source, wording = job.source, job.wording
    return render(
        job.text,
        job.target(mode),
        depth=source.depth,
        mode=mode,
        previous_context=ISOLATED_PREVIOUS if source.is_isolated else source.previous_context,
        instructions=wording.instructions,
        folder=wording.folder,
    )


def _without_model(job: _Job, asked: _Attempt) -> _Attempt:
    lines, sections = _lines(job.source), _sections(job.source)
    target, timezone = job.target(), job.wording.timezone
    summary = (
        extract(lines, target, source_tokens=job.weight, timezone=timezone)
        if lines
        else condense(sections, target, source_tokens=job.weight, timezone=timezone)
    )
    level: Level = "extractive"
    if summary is None:
        summary, level = _cut(job, is_asked=asked.failure is not None)
    return _Attempt(summary, level, EXTRACTIVE_MODEL, asked.calls, asked.failure)


def _cut(job: _Job, *, is_asked: bool) -> tuple[str | None, Level]:
    """A source without a sentence worth quoting, cut short; one that is short already is left as it is.

    The mark of a fallback is for a model that failed and can be asked again: without one, nobody could write it anew.
    """
    most = job.sizes.fallback_max_tokens
    if job.weight <= most:
        return None, "fallback"
    if is_asked:
        return fallback(job.text, most, job.weight), "fallback"
    words = cut_to_tokens(without_directives(job.text)[0], most - estimate_tokens(_ENDING)).rstrip()
    return (words + _ENDING if words else None), "extractive"


def _text(source: Source, timezone: str) -> str:
    if lines := _lines(source):
        return leaf_text(lines, timezone)
    return condensed_text(_sections(source), timezone)


def _lines(source: Source) -> list[Line]:
    return [part for part in source.parts if isinstance(part, Line)]


def _sections(source: Source) -> list[Section]:
    return [part for part in source.parts if isinstance(part, Section)]


def _parted(text: str) -> tuple[str, str]:
    """The body of a summary and its last `Expand for details about:` line, '' when it has none."""
    rows = text.split("\n")
    at = next((n for n in range(len(rows) - 1, -1, -1) if rows[n].lstrip().startswith(EXPAND.strip())), None)
    if at is None:
        return text.strip(), ""
    body = "\n".join(row for row in (*rows[:at], *rows[at + 1 :]) if not row.lstrip().startswith(EXPAND.strip()))
    expand = rows[at].strip()
    return body.strip(), expand if len(expand) > len(EXPAND) else EXPAND + NOTHING_ELSE


def _without_broken_end(body: str) -> str:
    """A cut-off text up to its last whole sentence, when that is most of it."""
    end = max((match.end() for match in _SENTENCE_END.finditer(body)), default=0)
    return body[:end].rstrip() if end >= len(body) // 2 else body

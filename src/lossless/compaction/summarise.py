"""Write one summary: ask a model, ask it for less, extract, or cut. The prompts a model gets, built in or from the
user's folder; how long each summary should be; and a pool of processes for large extractions.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, cast

from lossless.compaction import source_text
from lossless.compaction.extract import EXPAND, NOTHING_ELSE, condense, extract
from lossless.compaction.source_text import SourceMessage, SourceSummary
from lossless.errors import BadInput, GuardOpen, ModelAuth, ModelBadAnswer, ModelDenied, ModelError
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.model.identity import file_ids_in
from lossless.model.messages import remove_reasoning
from lossless.model.search_text import load_patterns
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from lossless.llm.completion import Completion

SYSTEM_TEMPLATE = "system"
#: The templates by name, as in the override folder (`leaf.md`, …).
TEMPLATE_NAMES = (SYSTEM_TEMPLATE, "leaf", "leaf-aggressive", "condensed-d1", "condensed-d2", "condensed-d3")
PLACEHOLDERS = ("instructions", "previous_context", "source", "target_tokens")
#: The default length of a leaf; a small budget has shorter ones.
DEFAULT_LEAF_TARGET = 2_400
MIN_LEAF_TARGET = 192
MIN_AGGRESSIVE_TARGET = 96
MIN_CONDENSED_TARGET = 512
#: Without a model, a leaf of the default length is no longer than this share of its source, or than so many tokens.
_EXTRACT_SHARE, _EXTRACT_TOKENS = 0.14, 600
_PLACE = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")
#: Tags in history that could be taken for those of its frame.
_FRAME = re.compile(r"<(?=/?\s*(?:previous_context|conversation_segment|conversation_to_condense)\b)", re.IGNORECASE)
_MAX_TEMPLATE_CHARS = 100_000
PromptMode = Literal["normal", "aggressive"]
_TEMPERATURES: dict[PromptMode, float] = {"normal": 0.2, "aggressive": 0.1}


@dataclass(frozen=True, slots=True)
class SummaryPrompt:
    """One request for a summary of about `target_tokens`."""

    system: str
    user: str
    target_tokens: int
    temperature: float


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt text with named places; `origin` is the file that it came from, or `built-in`."""

    name: str
    text: str
    origin: str = "built-in"


def leaf_target(input_tokens: int, leaf_target_tokens: int, mode: PromptMode = "normal") -> int:
    """How many tokens a leaf over so much input should take.

    >>> [leaf_target(20_000, 2_400, mode) for mode in ("normal", "aggressive")], leaf_target(100, 2_400)
    ([2400, 1320], 192)
    """
    if mode == "normal":
        return max(MIN_LEAF_TARGET, min(max(MIN_LEAF_TARGET, leaf_target_tokens), int(0.35 * input_tokens)))
    limit = max(MIN_AGGRESSIVE_TARGET, int(0.55 * leaf_target_tokens))
    return max(MIN_AGGRESSIVE_TARGET, min(limit, int(0.2 * input_tokens)))


def condensed_target(condensed_target_tokens: int) -> int:
    """How many tokens a condensed summary should take."""
    return max(MIN_CONDENSED_TARGET, condensed_target_tokens)


def template_name(depth: int, mode: PromptMode = "normal") -> str:
    """The template for a summary of a depth; condensed ones are asked for the same way twice.

    >>> template_name(0, "aggressive"), template_name(1, "aggressive"), template_name(7)
    ('leaf-aggressive', 'condensed-d1', 'condensed-d3')
    """
    if depth == 0:
        return "leaf" if mode == "normal" else "leaf-aggressive"
    return f"condensed-d{min(depth, 3)}"


def load_template(name: str, folder: Path | None = None) -> PromptTemplate:
    """A template by name: the folder's own file, else the built-in one. Raises BadInput with what is wrong."""
    built_in = _built_in(name)
    if folder is None:
        return built_in
    path = folder / f"{name}.md"
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return built_in
    except (OSError, UnicodeError) as error:
        raise BadInput(f"prompt template {str(path)!r} cannot be read: {error}") from error
    return _checked(PromptTemplate(name, text, str(path)))


def load_templates(folder: Path | None = None) -> tuple[PromptTemplate, ...]:
    """All templates in use, each from the folder or built in."""
    return tuple(load_template(name, folder) for name in TEMPLATE_NAMES)


def export_templates(folder: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write the built-in templates into a folder, ready to be edited; files that exist stay as they are.

    Returns the files that were written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in TEMPLATE_NAMES:
            path = folder / f"{name}.md"
            if overwrite or not path.exists():
                path.write_text(_built_in(name).text, "utf-8")
                written.append(path)
    except OSError as error:
        raise BadInput(f"prompt templates cannot be written to {str(folder)!r}: {error}") from error
    return tuple(written)


def render_prompt(
    source: str,
    target_tokens: int,
    *,
    depth: int = 0,
    mode: PromptMode = "normal",
    previous_context: str = "",
    instructions: str = "",
    folder: Path | None = None,
) -> SummaryPrompt:
    """The prompt for one summary. History is put inside its frame and cannot close it."""
    values = {
        "instructions": instructions.strip() or "none",
        "previous_context": _FRAME.sub("‹", previous_context.strip()) or "(none)",
        "source": _FRAME.sub("‹", source),
        "target_tokens": str(target_tokens),
    }
    system = _filled(load_template(SYSTEM_TEMPLATE, folder), values)
    user = _filled(load_template(template_name(depth, mode), folder), values)
    return SummaryPrompt(system, user, target_tokens, _TEMPERATURES[mode])


@lru_cache(maxsize=len(TEMPLATE_NAMES))
def _built_in(name: str) -> PromptTemplate:
    if name not in TEMPLATE_NAMES:
        raise BadInput(f"no prompt template {name!r}; there are {', '.join(TEMPLATE_NAMES)}")
    text = files("lossless.compaction").joinpath("templates", f"{name}.md").read_text("utf-8")
    return PromptTemplate(name, text)


def _checked(template: PromptTemplate) -> PromptTemplate:
    if len(template.text) > _MAX_TEMPLATE_CHARS:
        raise BadInput(f"prompt template {template.origin!r} is longer than {_MAX_TEMPLATE_CHARS} characters")
    allowed = () if template.name == SYSTEM_TEMPLATE else PLACEHOLDERS
    for place in _PLACE.findall(template.text):
        if place not in allowed:
            known = ", ".join(f"{{{{{name}}}}}" for name in allowed) or "none in this file"
            raise BadInput(f"prompt template {template.origin!r} has an unknown placeholder {place!r}; known: {known}")
    if template.name != SYSTEM_TEMPLATE and "source" not in _PLACE.findall(template.text):
        raise BadInput(f"prompt template {template.origin!r} lacks the placeholder {{{{source}}}}")
    return template


def _filled(template: PromptTemplate, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place[1]], template.text).strip()


SummaryLevel: TypeAlias = Literal["normal", "aggressive", "extractive", "fallback", "capped"]
OnFailure: TypeAlias = Literal["extractive", "raise"]
#: The failure of a model whose answers were not smaller than the source.
NOT_SMALLER = "not_smaller"
ISOLATED_PREVIOUS = "(not available: neighbouring segments are being summarised at the same time)"
ISOLATED_NOTE = "[Summarised without the context before it]"
_MODES: tuple[PromptMode, ...] = ("normal", "aggressive")
_FENCE = re.compile(r"```[\w-]*\n(.*)\n```", re.DOTALL)
#: More than any summary has: what a model says beyond it is not even read.
_MOST_CHARS = 400_000
#: An answer up to this length that begins like this is no summary, but the word that there will be none.
_REFUSAL_CHARS = 600
_ANSWERS = load_patterns(__package__)["answers"]


#: Sends one prompt to a model. Raises a `ModelError`, or `GuardOpen` when no call is allowed.
AskForSummary: TypeAlias = "Callable[[SummaryPrompt], Completion]"


@dataclass(frozen=True, slots=True)
class SummarySource:
    """The sources of one summary: messages for a leaf (depth 0), summaries for a condensed one."""

    parts: tuple[SourceMessage, ...] | tuple[SourceSummary, ...]
    depth: int = 0
    #: What the parts weigh in the context; the size of their text when not given.
    tokens: int | None = None
    previous_context: str = ""
    #: Neighbours are summarised at the same time, so there is no previous context to give.
    is_isolated: bool = False


@dataclass(frozen=True, slots=True)
class SummaryStyle:
    """How summaries are written: their sizes, and how the prompts read."""

    leaf_target_tokens: int = DEFAULT_LEAF_TARGET
    condensed_target_tokens: int = 2_000
    #: How much longer a model's may get before it is cut.
    overage_factor: float = 3.0
    fallback_max_tokens: int = 512
    #: The operator's instructions, the override folder, the zone of the times.
    instructions: str = ""
    folder: Path | None = None
    timezone: str = "UTC"


_ENDING = f"\n{EXPAND}{NOTHING_ELSE}"
_STYLE = SummaryStyle()


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary that is smaller than its source."""

    text: str
    level: SummaryLevel
    tokens: int
    #: The model that wrote it, or `EXTRACTIVE_MODEL` when none did.
    model: str
    #: Model calls that were made for it, failed ones included.
    calls: int = 0
    file_ids: tuple[str, ...] = ()
    #: Why no model wrote it: an error's code, or `NOT_SMALLER`; None when one did or none was asked.
    failure: str | None = None


#: What there is before anybody was asked.
_NOTHING = WrittenSummary("", "normal", 0, "")


@dataclass(frozen=True, slots=True)
class _SummaryJob:
    """A source with its text, its weight in the context, and how to write about it."""

    source: SummarySource
    text: str
    weight: int
    style: SummaryStyle

    def target(self, mode: PromptMode = "normal") -> int:
        if self.source.depth == 0:
            return leaf_target(estimate_tokens(self.text), self.style.leaf_target_tokens, mode)
        return condensed_target(self.style.condensed_target_tokens)


def summarise(
    source: SummarySource,
    ask: AskForSummary | None = None,
    style: SummaryStyle = _STYLE,
    on_failure: OnFailure = "extractive",
) -> WrittenSummary | None:
    """Write the summary of a source, or return None when no level makes it smaller.

    Without `ask` it is extracted at once. A model that fails is replaced by extraction, or its error is
    raised when `on_failure` says so. `ModelAuth` is always raised. A source without words costs no call.
    """
    if not any(part.is_meaningful for part in source.parts):
        return None
    lines, sections = _lines(source), _sections(source)
    zone = style.timezone
    text = source_text.leaf_text(lines, zone) if lines else source_text.condensed_text(sections, zone)
    weight = estimate_tokens(text) if source.tokens is None else source.tokens
    job = _SummaryJob(source, text, weight, style)
    made = _ask_model(job, ask, on_failure) if ask else _NOTHING
    if not made.text:
        made = _without_model(job, made)
    if not made.text:
        return None
    found = (*(file_id for part in source.parts for file_id in part.file_ids), text)
    return replace(made, tokens=estimate_tokens(made.text), file_ids=file_ids_in(*found))


def cap_summary(text: str, target_tokens: int, factor: float) -> str | None:
    """Text cut to `ceil(target * factor)` tokens with a note that says so; None when it is not longer.

    The note is the longest that fits; the line of what to expand stays last.
    """
    limit, size = ceil(target_tokens * factor), estimate_tokens(text)
    if size <= limit:
        return None
    body, expand = _parted(text)
    notes = (f"[Capped from {size} tokens to ~{limit}]", f"[Capped to ~{limit}]", "[Capped]")
    for last in (expand or EXPAND + NOTHING_ELSE, EXPAND + NOTHING_ELSE, ""):
        for note in notes:
            ending = "\n".join(["", note, *([last] if last else [])])
            if estimate_tokens(ending) <= limit // 2:
                return cut_to_tokens(body, limit - estimate_tokens(ending)).rstrip() + ending
    return cut_to_tokens(body, limit).rstrip()


def tidy_answer(answer: Completion) -> str:
    """An answer as a summary: no reasoning, no fence, no orders to a model, the last line in its place.

    Empty when nothing else is left, and when the model refused.
    """
    text = remove_reasoning(answer.text[:_MOST_CHARS]).strip()
    if is_refusal(text):
        return ""
    if fence := _FENCE.fullmatch(text):
        text = fence[1].strip()
    body, expand = _parted(source_text.remove_directives(text, source_text.is_override)[0])
    if answer.incomplete and not expand:  # up to the last whole sentence, when that is most of it
        end = max((match.end() for match in _ANSWERS["sentence_end"].finditer(body)), default=0)
        body = body[:end].rstrip() if end >= len(body) // 2 else body
    if not body.replace(source_text.DIRECTIVE_OMITTED, "").strip():
        return ""
    return f"{body}\n{expand or EXPAND + NOTHING_ELSE}"


def is_refusal(text: str) -> bool:
    """Whether a model says that it will not summarise, instead of doing so.

    >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("Anna said: I can't help with the move.")
    (True, False)
    """
    return len(text) <= _REFUSAL_CHARS and _ANSWERS["refusal"].match(text) is not None


def _ask_model(job: _SummaryJob, ask: AskForSummary, on_failure: OnFailure) -> WrittenSummary:
    """What a model wrote; without a text when it failed, with why."""
    source, style, calls = job.source, job.style, 0
    previous = ISOLATED_PREVIOUS if source.is_isolated else source.previous_context
    how: dict[str, Any] = {"previous_context": previous, "instructions": style.instructions, "folder": style.folder}
    for mode in _MODES:
        prompt = render_prompt(job.text, job.target(mode), depth=source.depth, mode=mode, **how)
        try:
            answer = ask(prompt)
        except ModelAuth:
            raise
        except (ModelError, GuardOpen) as error:
            if on_failure == "raise":
                raise
            was_called = not isinstance(error, (ModelDenied, GuardOpen))
            return replace(_NOTHING, calls=calls + was_called, failure=error.code)
        calls += 1
        summary = tidy_answer(answer)
        if not summary:
            return replace(_NOTHING, calls=calls, failure=ModelBadAnswer.code)
        if source.is_isolated:
            summary = f"{ISOLATED_NOTE}\n{summary}"
        if estimate_tokens(summary) < job.weight:
            cut = cap_summary(summary, prompt.target_tokens, style.overage_factor)
            return WrittenSummary(cut or summary, "capped" if cut else mode, 0, answer.model, calls)
    return replace(_NOTHING, calls=calls, failure=NOT_SMALLER)


def _without_model(job: _SummaryJob, asked: WrittenSummary) -> WrittenSummary:
    lines, target, timezone = _lines(job.source), job.target(), job.style.timezone
    if lines and job.style.leaf_target_tokens == DEFAULT_LEAF_TARGET:
        target = min(target, max(_EXTRACT_TOKENS, int(_EXTRACT_SHARE * job.weight)))
    summary = (
        extract(lines, target, source_tokens=job.weight, timezone=timezone)
        if lines
        else condense(_sections(job.source), target, source_tokens=job.weight, timezone=timezone)
    )
    level: SummaryLevel = "extractive"
    if summary is None:
        summary, level = _cut(job, is_asked=asked.failure is not None)
    return replace(asked, text=summary or "", level=level, model=EXTRACTIVE_MODEL)


def _cut(job: _SummaryJob, *, is_asked: bool) -> tuple[str | None, SummaryLevel]:
    """A source without a sentence worth quoting, cut short; one that is short already is left as it is.

    The mark of a fallback is for a model that failed and can be asked again: without a model, nothing could replace it.
    """
    limit = job.style.fallback_max_tokens
    if job.weight <= limit:
        return None, "fallback"
    if is_asked:
        return source_text.fallback_summary(job.text, limit, job.weight), "fallback"
    words = cut_to_tokens(source_text.remove_directives(job.text)[0], limit - estimate_tokens(_ENDING)).rstrip()
    return (words + _ENDING if words else None), "extractive"


def _lines(source: SummarySource) -> list[SourceMessage]:
    return [part for part in source.parts if isinstance(part, SourceMessage)]


def _sections(source: SummarySource) -> list[SourceSummary]:
    return [part for part in source.parts if isinstance(part, SourceSummary)]


def _parted(text: str) -> tuple[str, str]:
    """The body of a summary and its last `Expand for details about:` line, '' when it has none."""
    rows = text.split("\n")
    at = next((n for n in range(len(rows) - 1, -1, -1) if rows[n].lstrip().startswith(EXPAND.strip())), None)
    if at is None:
        return text.strip(), ""
    body = "\n".join(row for row in (*rows[:at], *rows[at + 1 :]) if not row.lstrip().startswith(EXPAND.strip()))
    expand = rows[at].strip()
    return body.strip(), expand if len(expand) > len(EXPAND) else EXPAND + NOTHING_ELSE


#: What a child runs: it finds modules where its parent does, then serves until its input ends.
_CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from lossless.compaction.summarise import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)
#: Sources that wait for each process, so that none is idle while a summary is put in its place.
_AHEAD = 2
#: What happens when a child cannot start, is gone, or says what none of ours would.
_BROKEN = (OSError, EOFError, pickle.PickleError, ValueError, TypeError, LookupError, AttributeError, ImportError)


class ExtractionPool:
    """Some processes that extract summaries, each started with its first source. None is left when the block ends.

    A summary takes milliseconds: a process that needs longer than `patience_seconds` is stuck. `program` is the
    interpreter that they run, else this one.
    """

    def __init__(self, size: int, *, program: str | None = None, patience_seconds: float = 30.0) -> None:
        self._size, self._patience_seconds = size, patience_seconds
        self._program = sys.executable if program is None else program
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="lossless-extract", initializer=self._start)
        #: The child of each thread; None where it could not start or broke: that thread extracts itself.
        self._own = threading.local()
        self._children: list[subprocess.Popen[bytes]] = []
        self._changing = threading.Lock()
        self._is_ended = self._is_closed = False

    def __enter__(self) -> ExtractionPool:
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_closed = True
        self._end()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for pipe in (pipe for child in self._children for pipe in (child.stdin, child.stdout) if pipe is not None):
            with suppress(OSError):  # what was not yet sent is not wanted any more
                pipe.close()

    def extracted(self, sources: Iterable[SummarySource], style: SummaryStyle) -> Iterator[WrittenSummary | None]:
        """The summaries of sources in their order; sources are asked for only a little ahead."""
        waiting: deque[Future[WrittenSummary | None]] = deque()
        for source in sources:
            waiting.append(self._threads.submit(self._extract, source, style))
            if len(waiting) >= _AHEAD * self._size:
                yield self._result(waiting.popleft())
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, future: Future[WrittenSummary | None]) -> WrittenSummary | None:
        """What a process wrote; when it does not answer, all are ended and everything is extracted here."""
        try:
            return future.result(self._patience_seconds)
        except TimeoutError:
            self._end()
            return future.result()

    def _extract(self, source: SummarySource, style: SummaryStyle) -> WrittenSummary | None:
        if (child := self._own.child) is not None:
            try:
                _send(child.stdin, (source, style))
                written: WrittenSummary | None = pickle.load(child.stdout)
            except _BROKEN:
                child.kill()
                self._own.child = None
            else:
                return written
        return None if self._is_closed else summarise(source, style=style)

    def _start(self) -> None:
        """A child for one more thread, where there can be one."""
        self._own.child = None
        is_python = Path(self._program).name.lower().startswith(("python", "pypy")) and not hasattr(sys, "frozen")
        pipe = subprocess.PIPE
        with self._changing, suppress(*_BROKEN):
            if is_python and not self._is_ended:
                command, null = [self._program, "-P", "-c", _CHILD], subprocess.DEVNULL
                child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True)
                self._children.append(child)
                _send(cast("IO[bytes]", child.stdin), sys.path)
                self._own.child = child

    def _end(self) -> None:
        """Stop the children at once and wait for them; they hold nothing that could be lost."""
        with self._changing:
            self._is_ended = True
            for child in self._children:
                child.kill()
                child.wait()


def _send(pipe: IO[bytes], value: object) -> None:
    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """What a child does: a summary for each source, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            question: Any = pickle.load(questions)
        except EOFError:
            return
        source, style = question
        _send(answers, summarise(source, style=style))

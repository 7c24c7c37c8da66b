"""Who reads for an answer: a host's sub-agent, a model that calls tools in a loop, or a model given all evidence in
one prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import GuardOpen, LosslessError, ModelAuth, ModelDenied, ModelError, ModelTimeout
from lossless.llm import completion
from lossless.llm.completion import Complete, Prompt
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.recall.results import find_references

if TYPE_CHECKING:
    from lossless.recall.tools import ToolCallResult

DelegatePhase: TypeAlias = Literal["spawn", "wait", "read_reply", "parse_reply"]

_CODES: dict[DelegatePhase, str] = {
    "spawn": "DELEGATED_EXPANSION_SPAWN_FAILED",
    "wait": "DELEGATED_EXPANSION_WAIT_FAILED",
    "read_reply": "DELEGATED_EXPANSION_REPLY_MISSING",
    "parse_reply": "DELEGATED_EXPANSION_REPLY_INVALID",
}
_SEEDS = 40
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_BRACES = 24
_MAX_CITED = 200
_UNKNOWN_MODEL = re.compile(
    r"(?:unknown|invalid|unsupported|no such) model|permission"
    r"|model\b.{0,80}(?:not found|not exist|unknown|not supported|not allowed)",
    re.IGNORECASE | re.DOTALL,
)


def _template(name: str) -> str:
    return Path(__file__).with_name("templates").joinpath(f"{name}.md").read_text("utf-8").rstrip("\n")


@dataclass(frozen=True, slots=True)
class DelegateTask:
    """One question to one conversation, with everything that a reader needs to answer it."""

    prompt: str
    query: str | None
    conversation_id: int
    #: The session that reads, and the grant that it reads under.
    session_key: str
    grant_id: str
    token_cap: int
    max_tokens: int
    seconds: float
    #: Where to begin: summaries, and messages that are not folded yet.
    seed_ids: tuple[str, ...] = ()
    #: The leaves among them that are there because of a message below.
    message_backed_ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The task in words, for a reader with tools."""
        begin = [_names(self.seed_ids) or "nothing; search first"]
        if backed := _names(self.message_backed_ids):
            begin.append(f"Only their messages match, so open these with includeMessages=true: {backed}")
        if self.query and self.query.strip():
            begin.append(f"Search words: {self.query.strip()}")
        return Template(_template("task")).substitute(
            question=self.prompt.strip(),
            conversation=self.conversation_id,
            budget=f"{self.token_cap:,}",
            tokens=f"{self.max_tokens:,}",
            seeds="\n".join(begin),
        )


@dataclass(frozen=True, slots=True)
class DelegateReply:
    """What a reader answered."""

    answer: str
    cited_ids: tuple[str, ...] = ()
    expanded_summary_count: int = 0
    total_source_tokens: int = 0
    truncated: bool = False


class DelegateError(Exception):
    """Why there is no answer: a phase and a code for programs, a sentence for the agent. Hosts raise it."""

    def __init__(self, reason: str, phase: DelegatePhase = "wait", code: str | None = None) -> None:
        super().__init__(reason)
        self.phase: DelegatePhase = phase
        self.code = code or _CODES.get(phase, _CODES["wait"])


#: A host's way to have a task done by a sub-agent: returns the sub-agent's last words. The sub-agent works in the
#: session `task.session_key`, and its tool calls come back under that key. The delegate stops it when it is done or
#: when `task.seconds` are over. It may raise `DelegateError`.
Delegate: TypeAlias = Callable[[DelegateTask], str | None]


def timeout_failure(seconds: float) -> DelegateError:
    """The failure of a reader that took too long."""
    return DelegateError(f"no answer within {seconds:.0f} s", "wait", "DELEGATED_EXPANSION_TIMEOUT")


def is_model_refusal(error: LosslessError) -> bool:
    """Whether a model will not answer whatever is asked: no credentials, no leave, no such model."""
    return isinstance(error, ModelAuth | ModelDenied) or _UNKNOWN_MODEL.search(str(error)) is not None


def ask_delegate(delegate: Delegate, task: DelegateTask) -> DelegateReply | DelegateError:
    """A task done by the host's sub-agent, whatever it does."""
    words, error = completion.run_within(lambda: delegate(task), task.seconds)
    if isinstance(error, ModelTimeout | TimeoutError):
        return timeout_failure(task.seconds)
    if isinstance(error, DelegateError):
        return error
    if error is not None:
        if not isinstance(error, Exception):
            raise error
        return DelegateError(f"the sub-agent failed: {type(error).__name__}", "wait")
    return parse_reply(words)


def parse_reply(text: str | None) -> DelegateReply | DelegateError:
    """The reply in a reader's last words: a JSON object, bare or fenced."""
    if not text or not text.strip():
        return DelegateError("the reader gave no answer", "read_reply")
    fields = next((found for found in find_json_objects(text) if isinstance(found.get("answer"), str)), None)
    if fields is None or not _is_answer(fields):
        return DelegateError("the reader's answer is not the JSON that was asked for", "parse_reply")
    return reply_from_fields(fields)


def reply_from_fields(fields: dict[str, Any]) -> DelegateReply:
    """A reply from its JSON; whatever is not as it should be counts as not given."""
    cited = fields.get("citedIds")
    words = [word for word in cited if isinstance(word, str)] if isinstance(cited, list) else []
    ids = [named.id for word in words for _, _, named in find_references(word)]
    answer = fields["answer"].encode("utf-8", "replace").decode().strip()
    counts = _count(fields.get("expandedSummaryCount")), _count(fields.get("totalSourceTokens"))
    return DelegateReply(answer, tuple(dict.fromkeys(ids))[:_MAX_CITED], *counts, fields.get("truncated") is True)


def find_json_objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects that stand in a text, fenced ones first. Any text will do."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    for source in (*_FENCED.findall(text), text):
        at = source.find("{")
        for _ in range(_BRACES):
            if at < 0:
                break
            try:
                value, end = decoder.raw_decode(source, at)
            except (ValueError, RecursionError):
                end = at + 1
            else:
                if isinstance(value, dict):
                    found.append(value)
            at = source.find("{", end)
    return found


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def _names(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - _SEEDS} more" if len(ids) > _SEEDS else ""
    return ", ".join(ids[:_SEEDS]) + more


#: Uses a tool by name within a task's grant.
UseTool: TypeAlias = "Callable[[str, dict[str, Any]], ToolCallResult]"

LOOP_TOOLS = ("lcm_describe", "lcm_expand", "lcm_grep")
MAX_LOOP_STEPS = 8
#: What tools may show beyond the source text of the budget: manifests, hits, errors.
_OVERHEAD_TOKENS = 6_000
_MOST_INVALID = 2
#: Room for a model to think and to wrap its answer in JSON.
_REPLY_TOKENS = 1_024

LOOP_SYSTEM_PROMPT = _template("loop")


@dataclass(slots=True)
class _LoopTranscript:
    """What was called and what came back, within a budget."""

    task: DelegateTask
    remaining: int
    lines: list[str] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)
    source_tokens: int = 0
    truncated: bool = False

    def add(self, call: dict[str, Any], used: ToolCallResult) -> None:
        text = cut_to_tokens(used.text, max(0, self.remaining))
        self.remaining -= estimate_tokens(text)
        note = "" if len(text) == len(used.text) else "\n(cut: no room for more)"
        self.lines.append(f"<call>{escape(json.dumps(call, ensure_ascii=False), quote=False)}</call>")
        self.lines.append(f"<result>\n{escape(text, quote=False)}{note}\n</result>")
        if used.is_error:
            return
        details = used.details
        self.opened |= {id_ for id_ in details.get("expandedIds", []) if id_.startswith("sum_")}
        if details.get("type") == "summary":
            self.opened.add(details["id"])
            self.source_tokens += details["summary"]["tokenCount"]
        self.source_tokens += details.get("totalTokens", 0)
        self.truncated = self.truncated or bool(details.get("truncated"))

    def prompt(self, steps: int) -> Prompt:
        rule = f"{steps} steps left, {max(0, self.remaining):,} tokens of results left."
        if steps <= 1 or self.remaining <= 0:
            rule = "No more tool calls: give the final reply now."
        user = "\n\n".join([self.task.text, *self.lines, rule])
        return Prompt(LOOP_SYSTEM_PROMPT, user, self.task.max_tokens + _REPLY_TOKENS, 0.0, "answer")


def run_tool_loop(
    complete: Complete, task: DelegateTask, use: UseTool, until: float, clock: Callable[[], float]
) -> DelegateReply | DelegateError:
    """A task done by a model that calls tools. A model that refuses the very first call raises.

    Counters are ours, not the model's: what was opened and what it took is known from the tools.
    """
    script = _LoopTranscript(task, task.token_cap + _OVERHEAD_TOKENS)
    invalid = 0
    for step in range(MAX_LOOP_STEPS):
        text = _ask(complete, script.prompt(MAX_LOOP_STEPS - step), until - clock(), task.seconds, is_first=not step)
        if isinstance(text, DelegateError):
            return text
        fields = next((found for found in find_json_objects(text) if _is_call(found) or _is_answer(found)), None)
        if fields is not None and _is_call(fields):
            script.add(fields, use(fields["tool"], fields["args"]))
            continue
        if fields is not None:
            reply = reply_from_fields(fields)
            truncated = reply.truncated or (script.truncated and script.remaining <= 0)
            return DelegateReply(reply.answer, reply.cited_ids, len(script.opened), script.source_tokens, truncated)
        invalid += 1
        if invalid >= _MOST_INVALID:
            if not text.strip():
                return DelegateError("the model said nothing", "read_reply")
            return DelegateError("the model's answers are not the JSON that was asked for", "parse_reply")
        script.lines.append("Your last reply was not one JSON object. Reply with JSON only.")
    return DelegateError(f"the model gave no final answer in {MAX_LOOP_STEPS} steps", "read_reply")


def _ask(complete: Complete, prompt: Prompt, seconds: float, whole: float, *, is_first: bool) -> str | DelegateError:
    """What a model says within some seconds, of `whole` for all; one that refuses the first question raises."""
    if seconds <= 0:
        return timeout_failure(whole)
    try:
        return completion.ask_within(complete, prompt, seconds).text
    except ModelTimeout:
        return timeout_failure(whole)
    except (ModelError, GuardOpen) as error:
        if is_first and is_model_refusal(error):
            raise
        return DelegateError(str(error), "spawn" if is_first else "wait")


def _is_answer(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("answer"), str) and bool(fields["answer"].strip())


def _is_call(fields: dict[str, Any]) -> bool:
    return fields.get("tool") in LOOP_TOOLS and isinstance(fields.get("args"), dict)


EVIDENCE_SYSTEM_PROMPT = _template("evidence")


def ask_with_evidence(
    complete: Complete, question: str, packed: DelegateReply, max_tokens: int, until: float, clock: Callable[[], float]
) -> DelegateReply | DelegateError:
    """One answer from one prompt. A model that refuses raises."""
    seconds, evidence = until - clock(), escape(packed.answer, quote=False)
    user = (
        f"Question: {question.strip()}\n\n<evidence>\n{evidence}\n</evidence>\n\n"
        f"Answer in at most {max_tokens:,} tokens, as JSON."
    )
    prompt = Prompt(EVIDENCE_SYSTEM_PROMPT, user, max_tokens + _REPLY_TOKENS, 0.0, "answer")
    text = _ask(complete, prompt, seconds, max(0.0, seconds), is_first=True)
    reply = parse_reply(text) if isinstance(text, str) else text
    if isinstance(reply, DelegateError):
        return reply
    truncated = reply.truncated or packed.truncated
    return replace(packed, answer=reply.answer, cited_ids=reply.cited_ids, truncated=truncated)

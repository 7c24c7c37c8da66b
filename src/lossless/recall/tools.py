"""The tools for agents, declared in `tools.toml`: their schemas, and what each does when it is called."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput, GrantError, LosslessError, NotFound
from lossless.model.conversations import Session, as_session
from lossless.model.times import parse_time, state_time
from lossless.recall import answer as answering
from lossless.recall.describe import DescribeRequest, describe
from lossless.recall.evidence import question_messages, recall, recent
from lossless.recall.expand import ExpandRequest, expand
from lossless.recall.results import MAX_RESULT_CHARS, SearchHit, json_fields, parse_reference, parse_references
from lossless.recall.scope import OUT_OF_SCOPE, Caller, Grep, GrepRequest, Scope, resolve_scope, visible_conversations
from lossless.recall.search import SearchLimits, grep
from lossless.settings import Settings

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.llm.completion import Complete
    from lossless.recall.delegate import Delegate
    from lossless.store.archive import Archive

ParameterKind: TypeAlias = Literal["string", "integer", "boolean", "strings", "time"]
Arguments: TypeAlias = Mapping[str, Any]

#: The largest id and number that is understood; beyond it nothing is stored.
_LARGEST = 2**53
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_HUMP = re.compile(r"_([a-z])")
_LIST: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: ParameterKind
    help: str
    default: Any = None
    required: bool = False
    #: Whether the schema asks models for it although there is a default.
    asked_for: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    #: Whether a number out of bounds is moved to the bound instead of being an error.
    clamps: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        kind = _LIST if self.kind == "strings" else {"type": "string" if self.kind == "time" else self.kind}
        more = {"enum": list(self.choices), "minimum": self.minimum, "maximum": self.maximum, "default": self.default}
        given = {name: value for name, value in more.items() if value not in (None, (), [])}
        return kind | {"description": self.help} | given

    def read(self, value: object) -> Any:
        """The value as the tool wants it; `BadInput` says what is wrong with it."""
        if value is None:
            if self.required:
                raise BadInput(f"{self.name} is required")
            return self.default
        match self.kind:
            case "integer":
                return self._integer(value)
            case "boolean":
                if isinstance(value, str):
                    value = {"true": True, "false": False}.get(value.strip().lower(), value)
                if not isinstance(value, bool):
                    raise self._wrong("true or false", value)
                return value
            case "strings":
                return self._strings(value)
            case "time":
                with suppress(ValueError, OverflowError):
                    if isinstance(value, str):
                        return parse_time(value)
                raise self._wrong("a time such as 2026-01-05T09:00:00Z", value)
            case "string":
                return self._text(value)

    def _text(self, value: object) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise self._wrong("a text", value)
        text = value.strip()
        if self.required and not text:
            raise BadInput(f"{self.name} is required and must not be empty")
        if self.choices and text not in self.choices:
            raise self._wrong(f"one of {', '.join(self.choices)}", value)
        return text

    def _integer(self, value: object) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value.strip())
        if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
            raise self._wrong("a whole number", value)
        number = int(value)
        low = -_LARGEST if self.minimum is None else self.minimum
        high = _LARGEST if self.maximum is None else self.maximum
        bounded = min(high, max(low, number))
        if bounded != number and not self.clamps:
            allowed = f"at least {low}" if self.maximum is None else f"between {low} and {high}"
            raise BadInput(f"{self.name} must be {allowed}, not {number}")
        return bounded

    def _strings(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            text, value = value.strip(), [value]
            if text.startswith("[") and text.endswith("]"):
                with suppress(ValueError, RecursionError):
                    value = json.loads(text)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self._wrong("a list of texts", value)
        return tuple(item.strip() for item in value if item.strip())

    def _wrong(self, wanted: str, value: object) -> BadInput:
        return BadInput(f"{self.name} must be {wanted}, not {_shown_value(value)}")


def read_arguments(parameters: Sequence[Parameter], given: object) -> dict[str, Any]:
    """All arguments by name, defaults filled in; `BadInput` for anything that no call should have.

    Names in snake case, numbers and lists as text, and JSON text instead of an object are understood.
    """
    fields = _fields(given)
    known = {parameter.name for parameter in parameters}
    spelled = {name if name in known else _HUMP.sub(lambda hump: hump[1].upper(), name): name for name in fields}
    if unknown := sorted(spelled.keys() - known):
        allowed = ", ".join(parameter.name for parameter in parameters)
        raise BadInput(f"unknown argument {_shown_value(unknown[0])}; there are {allowed}")
    return {
        parameter.name: parameter.read(fields[spelled[parameter.name]] if parameter.name in spelled else None)
        for parameter in parameters
    }


def _fields(given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            raise BadInput("the arguments are not JSON") from None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadInput(f"the arguments must be an object, not {_shown_value(given)}")
    return given


def _shown_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


ToolFunction: TypeAlias = "Callable[[Toolbox, Arguments, Caller], ToolCallResult]"

_ANYONE = Caller()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what it is called, what it takes, what it does."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    function: ToolFunction

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required or parameter.asked_for],
            "additionalProperties": False,
        }


#: How many summaries a query opens.
_QUERY_SUMMARIES = 8
_SUBAGENTS_ONLY = "lcm_expand is for sub-agents on this host."
_SUBAGENTS_HINT = "Call lcm_expand_query to have a sub-agent read, or lcm_describe to open one thing."


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """What a tool returns: a text of bounded length that an agent reads, and details for programs."""

    text: str
    details: dict[str, Any]
    is_error: bool = False

    def __post_init__(self) -> None:
        text = self.text.encode("utf-8", "replace").decode()
        if len(text) > MAX_RESULT_CHARS:
            note = "\n(truncated: the result is too long)"
            text = text[: MAX_RESULT_CHARS - len(note)] + note
        object.__setattr__(self, "text", text)

    @property
    def content(self) -> list[dict[str, str]]:
        """The text as the content blocks of a tool result."""
        return [{"type": "text", "text": self.text}]


def error_result(text: str, *, hint: str | None = None, code: str | None = None) -> ToolCallResult:
    """A refusal as JSON: `{error, hint?, errorCode?}`."""
    details = {name: value for name, value in (("error", text), ("hint", hint), ("errorCode", code)) if value}
    return ToolCallResult(json.dumps(details, ensure_ascii=False), details, is_error=True)


def error_to_result(error: LosslessError, caller: Caller) -> ToolCallResult:
    """One of our errors as a tool's result."""
    hint = None
    if isinstance(error, NotFound) and error.kind == OUT_OF_SCOPE and not caller.is_delegated:
        hint = "It may be in another conversation: pass conversationId, or allConversations=true."
    return error_result(str(error), hint=hint, code=error.code)


def _scope(box: Toolbox, args: Arguments, caller: Caller) -> Scope:
    id_, is_all, how = args["conversationId"], bool(args["allConversations"]), box.settings
    return resolve_scope(box.archive, caller, box.clock(), conversation_id=id_, all_conversations=is_all, settings=how)


def _with_scope_warning(scope: Scope, text: str, details: dict[str, Any]) -> ToolCallResult:
    if scope.warning is None:
        return ToolCallResult(text, details)
    return ToolCallResult(f"Note: {scope.warning}\n\n{text}", details | {"warning": scope.warning})


def call_grep(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    since, before = args["since"], args["before"]
    if since is not None and before is not None and since >= before:
        hint = "pass since before before; both are times such as 2026-01-05T09:00:00Z"
        raise BadInput(f"since must be earlier than before: {hint}")
    file_ids = tuple(named.id for named in parse_references(args["fileIds"], kinds=("file",)))
    if file_ids and args["scope"] != "files":
        raise BadInput('fileIds is only for scope="files"')
    scope = _scope(box, args, caller)
    request = GrepRequest(
        args["pattern"], args["mode"], args["scope"], file_ids, since, before, args["limit"], args["sort"]
    )
    found = box.grep(box.archive, scope, request, box.clock(), cursor=args["cursor"] or None)
    kinds = [hit.kind for hit in found.hits]
    details: dict[str, Any] = {
        "messageCount": kinds.count("message"),
        "summaryCount": kinds.count("summary"),
        "fileCount": kinds.count("file"),
        "totalMatches": found.total,
        "truncated": found.truncated,
        "cursor": found.cursor,
        "matches": [_hit_details(hit) for hit in found.hits],
    }
    more = {"hint": found.hint, "warning": scope.warning}
    return ToolCallResult(str(found), details | {name: text for name, text in more.items() if text})


#: What is told of each kind of hit.
_HIT = "id kind=type snippet conversation_id created_at"
_HIT_FIELDS = {
    "summary": f"{_HIT} depth",
    "message": f"{_HIT} seq role summary_id=coveredBy",
    "file": f"{_HIT} name=fileName line offset",
}


def _hit_details(hit: SearchHit) -> dict[str, Any]:
    details = json_fields(hit, _HIT_FIELDS[hit.kind])
    if hit.kind == "summary":
        return details | {"kind": "condensed" if hit.depth else "leaf", "summaryId": hit.id}
    return details if hit.version is None else details | {"version": hit.version}


def call_describe(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    reference = parse_reference(args["id"])
    cap, first, last = box.settings.max_expand_tokens, args["startLine"], args["endLine"]
    request = DescribeRequest(args["tokenCap"], cap, args["expandFileMaxBytes"], first, last, args["cursor"] or None)
    scope = _scope(box, args, caller)
    found = describe(box.archive, reference, scope, box.clock(), request, box.vault)
    return _with_scope_warning(scope, str(found), found.details)


def call_expand(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    rule = box.settings.expand_for_main_agents
    if not (caller.is_delegated or rule == "allow" or (rule == "auto" and not caller.host_has_subagents)):
        return error_result(_SUBAGENTS_ONLY, hint=_SUBAGENTS_HINT, code="SUBAGENTS_ONLY")
    scope = _scope(box, args, caller)
    ids, query = args["summaryIds"], args["query"]
    references = parse_references(ids, kinds=("summary", "message"))
    if query and not args["cursor"]:
        found = answering.find_candidates(box.archive, box.grep, scope, (), query, box.clock())
        if not found and not references:
            return _with_scope_warning(
                scope, "Nothing found for this query in this scope.", {"citedIds": [], "totalTokens": 0}
            )
        more = parse_references((candidate.id for candidate in found[:_QUERY_SUMMARIES]), kinds=("summary", "message"))
        references = tuple(dict.fromkeys((*references, *more)))
    around = parse_reference(args["around"]) if args["around"] else None
    if around is not None and around.kind != "message":
        raise BadInput(f"around must be a message, such as msg#12, not {around.id}")
    cap, message_id = args["tokenCap"] or box.settings.max_expand_tokens, around.message_id if around else None
    request = ExpandRequest(references, args["maxDepth"], cap, args["includeMessages"], message_id)
    opened = expand(box.archive, request, scope, box.clock(), args["cursor"] or None)
    return _with_scope_warning(scope, str(opened), opened.details)


def call_expand_query(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    if not args["query"] and not args["summaryIds"]:
        raise BadInput("pass query, summaryIds or both")
    ids = tuple(named.id for named in parse_references(args["summaryIds"], kinds=("summary",)))
    settings = box.settings
    work_ms, cap = settings.delegation_timeout_ms, args["tokenCap"] or settings.max_expand_tokens
    seconds = (args["timeoutMs"] or min(600_000, work_ms + 30_000)) / 1000, work_ms / 1000
    question = answering.Question(args["prompt"], args["query"] or None, ids, args["maxTokens"], cap, *seconds)
    try:
        scope = _scope(box, args, caller)
    except GrantError:
        if not caller.is_delegated:
            raise
        scope = Scope("grant", ())
    asks = (question.prompt, question.query or "")
    box = replace(box, asking=_question_ids(box, caller), questions=asks)  # readers are not shown what asks
    details = answering.answer(box, question, scope, caller) | ({"warning": scope.warning} if scope.warning else {})
    text = json.dumps(details, ensure_ascii=False)
    if len(text) > MAX_RESULT_CHARS and "answer" in details:  # it is cut, so that they stay JSON
        rest = details | {"answer": "", "truncated": True, "conversationBreakdown": []}
        space = (MAX_RESULT_CHARS - len(json.dumps(rest, ensure_ascii=False))) // 2
        text = json.dumps(rest | {"answer": details["answer"][: max(0, space)]}, ensure_ascii=False)
    return ToolCallResult(text, details, is_error="error" in details)


def _question_ids(box: Toolbox, caller: Caller) -> frozenset[int]:
    return box.asking | (question_messages(box.archive, caller.session) if caller.in_turn else frozenset())


_QUOTE = "reference=id conversation_id seq role created_at text summary_id"


def call_recall(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    scope = _scope(box, args, caller)
    limit = args["maxTokens"] or box.settings.recall_max_tokens
    found = recall(box.archive, scope, args["question"], limit, box.clock(), _question_ids(box, caller))
    return _with_scope_warning(scope, str(found), {"evidence": [json_fields(item, _QUOTE) for item in found.evidence]})


def call_recent(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    """What was said in a time. `BadInput` when the words name none."""
    scope = _scope(box, args, caller)
    limit = args["maxTokens"] or box.settings.recall_max_tokens
    found = recent(box.archive, scope, args["when"], limit, box.clock(), _question_ids(box, caller))
    topics = [
        json_fields(topic, "conversation_id since until words message_count=messages")
        | {"quotes": [json_fields(item, _QUOTE) for item in topic.quotes]}
        for topic in found.topics
    ]
    return _with_scope_warning(scope, str(found), json_fields(found, "since before note") | {"topics": topics})


_CONVERSATION = (
    "conversation_id session_key title message_count=messages summary_count=summaries latest_message_at=latestAt"
)
#: A title or a session key is shown up to so many characters.
_NAME_CHARS = 80
_STATUS = Path(__file__).with_name("templates").joinpath("status.md").read_text(encoding="utf-8").rstrip("\n")


def call_status(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    """How much is kept, whether anything is held up, and the newest conversations with their numbers.

    Raises GrantError for a sub-agent: it sees what its grant names, and this names everything.
    """
    if caller.is_delegated:
        raise GrantError("the status of the archive is not for sub-agents")
    archive = box.archive.within(box.visible(caller))
    with archive.reading():
        totals, live = archive.listings.totals(), archive.listings.liveness()
        newest = archive.listings.conversations(args["limit"]).rows
        own = None if caller.session is None else archive.conversations.find(caller.session)
    details: dict[str, Any] = {
        **json_fields(totals.counts, "conversations messages"),
        "messageTokens": totals.message_tokens,
        **json_fields(totals.counts, "summaries files"),
        **json_fields(live, "last_stored_at last_compacted_at seen stored ambiguous revised likely"),
        "blocked": len(live.blocked),
        "quarantined": len(live.quarantined),
        "heldTranscripts": len(archive.transcripts.held()),
        "sweepsPutOff": totals.pending,
        "conversationId": None if own is None else own.id,
        "newest": [json_fields(row, _CONVERSATION) for row in newest],
    }
    stored, compacted = (_ago(at, box.clock()) for at in (live.last_stored_at, live.last_compacted_at))
    lines = [_STATUS.format(**details, storedAgo=stored, compactedAgo=compacted)]
    if own is not None:
        lines.append(f"This session is conversation {own.id}.")
    lines += ["", "Newest conversations (pass conversationId to look at one):"] if newest else []
    for row in newest:
        name = " ".join((row.title or row.session_key or row.session_id)[:_NAME_CHARS].split())
        last = "undated" if row.latest_message_at is None else state_time(row.latest_message_at)
        counted = f"{row.message_count:,} messages, {row.summary_count:,} summaries"
        lines.append(f"{row.conversation_id}: {name}; {counted}, last {last}")
    return ToolCallResult("\n".join(lines), details)


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _declared() -> Iterator[Tool]:
    """The tools of `tools.toml`, in its order."""
    tables = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))
    shared = tables.pop("shared")
    for name, table in tables.items():
        parameters = []
        for argument, own in table["parameters"].items():
            fields = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
            parameters.append(Parameter(argument, **(fields or shared[argument])))
        yield Tool(name, table["help"], tuple(parameters), globals()[name.replace("lcm_", "call_")])


ALL_TOOLS = tuple(_declared())
TOOLS_BY_NAME = {tool.name: tool for tool in ALL_TOOLS}
#: For agents that stand outside of a conversation and have to find it first: those that ask over MCP.
STATUS_TOOL = TOOLS_BY_NAME["lcm_status"]
#: What a model gets with its conversation, in every host.
TOOLS = tuple(tool for tool in ALL_TOOLS if tool is not STATUS_TOOL)


def openai_tools() -> list[dict[str, Any]]:
    """The tools as OpenAI's chat completions take them."""
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.help, "parameters": tool.schema}}
        for tool in TOOLS
    ]


def anthropic_tools() -> list[dict[str, Any]]:
    """The tools as Anthropic's messages take them."""
    return [{"name": tool.name, "description": tool.help, "input_schema": tool.schema} for tool in TOOLS]


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools over one archive. Safe to share between threads."""

    archive: Archive
    settings: Settings = field(default_factory=Settings)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: The bytes of stored files; without it their text comes from messages, where it still is there.
    vault: Vault | None = None
    #: The model that answers questions, and the one to ask when that refuses, each with a name to remember it by.
    models: tuple[tuple[str, Complete], ...] = ()
    delegate: Delegate | None = None
    monotonic: Callable[[], float] = time.monotonic
    #: For those who read on behalf of a question: the messages that ask it, and its words. They do not find them.
    asking: frozenset[int] = frozenset()
    questions: tuple[str, ...] = ()

    @property
    def grep(self) -> Grep:
        """The search that the tools use, within the time that the settings give it."""
        limits = SearchLimits.of(self.settings, self.vault)
        return partial(grep, means=replace(limits, asking=self.asking, questions=self.questions))

    def call(self, name: str, args: object = None, caller: Caller = _ANYONE) -> ToolCallResult:
        """Use a tool. Whatever the arguments are, the result is a text: an error is one, too, as JSON."""
        tool = TOOLS_BY_NAME.get(name)
        if tool is None:
            return error_result(f"there is no tool {name!r:.60}", hint=f"There are {', '.join(TOOLS_BY_NAME)}.")
        try:
            return tool.function(self, read_arguments(tool.parameters, args), caller)
        except LosslessError as error:
            return error_to_result(error, caller)

    def visible(self, caller: Caller) -> tuple[int, ...] | None:
        """The conversations that a caller may see, whatever it asks for; None for all."""
        return visible_conversations(self.archive, caller, self.settings)

    def run(self, name: str, args: object = None, *, session: Session | str | None = None) -> ToolCallResult:
        """Use a tool as an agent of this session would."""
        return self.call(name, args, Caller(None if session is None else as_session(session)))

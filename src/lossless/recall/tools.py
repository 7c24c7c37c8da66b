"""The tools for agents, declared once: parameters, JSON schemas, argument checks, the toolbox and the documentation
page.

`python -m lossless.recall.tools docs/reference/tools.md` writes the page; with `--check` it only reports whether
the page is current.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput, LosslessError
from lossless.model.conversations import Session, as_session
from lossless.model.records import DEFAULT_PAGE_BYTES, MAX_PAGE_BYTES, MIN_PAGE_BYTES
from lossless.model.times import parse_time
from lossless.recall import calls
from lossless.recall.calls import ToolCallResult, call_status, error_result, error_to_result
from lossless.recall.describe import vault_opener
from lossless.recall.evidence import grep_without_question
from lossless.recall.scope import Caller, visible_conversations
from lossless.recall.search import SearchLimits, grep
from lossless.settings import Settings
from lossless.settings.page import write_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.files.vault import Vault
    from lossless.llm.completion import Complete
    from lossless.recall.delegate import Delegate
    from lossless.recall.describe import OpenFile
    from lossless.recall.scope import Grep
    from lossless.store.archive import Archive

ParameterKind: TypeAlias = Literal["string", "integer", "boolean", "strings", "time"]
Arguments: TypeAlias = Mapping[str, Any]

#: The largest id and number that is understood; beyond it nothing is stored.
_LARGEST = 2**53
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_HUMP = re.compile(r"_([a-z])")
_TYPES: dict[ParameterKind, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "strings": {"type": "array", "items": {"type": "string"}},
    "time": {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: ParameterKind
    help: str
    default: Any = None
    #: Whether a call without it makes no sense.
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
        found: dict[str, Any] = dict(_TYPES[self.kind]) | {"description": self.help}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.minimum is not None:
            found["minimum"] = self.minimum
        if self.maximum is not None:
            found["maximum"] = self.maximum
        if self.default not in (None, ()):
            found["default"] = self.default
        return found

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
_WHERE = (
    Parameter("conversationId", "integer", "Look only at this conversation.", minimum=1),
    Parameter(
        "allConversations",
        "boolean",
        "Look at all conversations instead of this session and its earlier ones.",
        default=False,
    ),
)
_CURSOR = Parameter("cursor", "string", "Go on where an earlier result stopped: the cursor that it gave.")


def _most_tokens(what: str) -> Parameter:
    help_ = f"The most tokens of {what}; the setting recallMaxTokens else."
    return Parameter("maxTokens", "integer", help_, minimum=1, maximum=100_000, clamps=True)


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


#: What a model gets with its conversation, in every host.
TOOLS: tuple[Tool, ...] = (
    Tool(
        "lcm_grep",
        "Find where something was said: in messages, summaries or stored files, of this session and its earlier "
        "ones. Returns ids and short quotes; lcm_describe opens an id.",
        (
            Parameter("pattern", "string", "What to look for: a regular expression, or words.", required=True),
            Parameter(
                "mode",
                "string",
                'How to read the pattern. "regex": exact strings, identifiers, paths, error codes. "full_text": words, '
                'one to three telling ones, or a "quoted phrase".',
                default="regex",
                choices=("regex", "full_text"),
            ),
            Parameter(
                "scope", "string", "Where to look.", default="both", choices=("messages", "summaries", "both", "files")
            ),
            Parameter("fileIds", "strings", 'Only these files; for scope="files".', default=()),
            *_WHERE,
            Parameter("since", "time", "Only from this time on (ISO 8601)."),
            Parameter("before", "time", "Only before this time (ISO 8601)."),
            Parameter("limit", "integer", "The most matches.", default=50, minimum=1, maximum=200, clamps=True),
            Parameter(
                "sort",
                "string",
                'The order: "recency", or for full_text "relevance" and "hybrid" (relevance, newer a little first).',
                default="recency",
                choices=("recency", "relevance", "hybrid"),
            ),
            _CURSOR,
        ),
        calls.call_grep,
    ),
    Tool(
        "lcm_describe",
        "Open one thing by its id: a summary (sum_…) with what it was made of and what opening that would cost, a "
        "message (msg#12) in full with its neighbours, or a stored file (file_…) with its content. A whole reference "
        "such as [LCM Tool Output: file_… | …] is understood, too.",
        (
            Parameter("id", "string", "What to open: sum_…, msg#…, file_…, or a pasted reference.", required=True),
            *_WHERE,
            Parameter(
                "tokenCap",
                "integer",
                "The budget that branches below a summary are held against; for messages and files, the most to show.",
                minimum=1,
            ),
            Parameter("expandFile", "boolean", "Accepted; a file's content is always shown.", default=False),
            Parameter(
                "expandFileMaxBytes",
                "integer",
                "The most bytes of a file to show at once.",
                default=DEFAULT_PAGE_BYTES,
                minimum=MIN_PAGE_BYTES,
                maximum=MAX_PAGE_BYTES,
                clamps=True,
            ),
            Parameter("startLine", "integer", "The first line of a file to show, counted from 1.", minimum=1),
            Parameter("endLine", "integer", "The last line of a file to show.", minimum=1),
            _CURSOR,
        ),
        calls.call_describe,
    ),
    Tool(
        "lcm_expand",
        "Read the words behind summaries, in order and within a budget: the summaries that a summary was made of, "
        "down to the messages. Where the host has sub-agents this is for them.",
        (
            Parameter("summaryIds", "strings", "What to open: sum_… ids; msg#… ids are understood, too.", default=()),
            Parameter("query", "string", "Words; the summaries that match them best are opened."),
            Parameter("maxDepth", "integer", "How many layers down.", default=3, minimum=1, maximum=10, clamps=True),
            Parameter("tokenCap", "integer", "The most tokens to return; the setting maxExpandTokens else.", minimum=1),
            Parameter(
                "includeMessages",
                "boolean",
                "Go down to the messages. Those of a leaf that is named are always read.",
                default=False,
            ),
            Parameter("around", "string", "A message (msg#12) to be in the middle of what is read."),
            *_WHERE,
            _CURSOR,
        ),
        calls.call_expand,
    ),
    Tool(
        "lcm_expand_query",
        "Have a question answered from compacted history, with the ids that carry the answer. Another reader does "
        "the reading, so your context stays small; it may take about two minutes.",
        (
            Parameter("prompt", "string", "The question to answer.", required=True),
            Parameter("query", "string", "Words to find the summaries that may hold the answer."),
            Parameter("summaryIds", "strings", "Summaries to begin with: sum_… ids.", default=()),
            Parameter(
                "maxTokens",
                "integer",
                "How long the answer should be at most.",
                default=2000,
                minimum=1,
                maximum=100_000,
            ),
            Parameter("tokenCap", "integer", "How much may be read; the setting maxExpandTokens else.", minimum=1),
            *_WHERE,
            Parameter(
                "timeoutMs",
                "integer",
                "How long to wait; the setting delegationTimeoutMs and half a minute else.",
                asked_for=True,
                minimum=1,
                maximum=600_000,
                clamps=True,
            ),
        ),
        calls.call_expand_query,
    ),
    Tool(
        "lcm_recall",
        "Get evidence for a question in plain words: quotes with ids and dates from this session and its earlier "
        "ones. One fast call, no model and no sub-agent.",
        (
            Parameter("question", "string", "The question, in your own words.", required=True),
            _most_tokens("evidence"),
            *_WHERE,
        ),
        calls.call_recall,
    ),
    Tool(
        "lcm_recent",
        "What happened in a period, by day and topic: quotes with ids. One fast call, no model and no sub-agent.",
        (
            Parameter(
                "when",
                "string",
                'The time in words or as a date: "yesterday", "last week", "since Monday", "3 March", "2026-03-03".',
                default="since yesterday",
            ),
            _most_tokens("quotes"),
            *_WHERE,
        ),
        calls.call_recent,
    ),
)
#: For agents that stand outside of a conversation and have to find it first: those that ask over MCP.
STATUS_TOOL = Tool(
    "lcm_status",
    "How much is kept, when something was stored last, whether anything is held up, and the newest conversations "
    "with the numbers that the other tools take as conversationId.",
    (Parameter("limit", "integer", "How many conversations to list.", default=10, minimum=1, maximum=50, clamps=True),),
    call_status,
)
ALL_TOOLS = (*TOOLS, STATUS_TOOL)
TOOLS_BY_NAME = {tool.name: tool for tool in ALL_TOOLS}


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
    #: The host's own sub-agents.
    delegate: Delegate | None = None
    monotonic: Callable[[], float] = time.monotonic
    #: For those who read on behalf of a question: the messages that ask it, and its words. They do not find them.
    asking: frozenset[int] = frozenset()
    questions: tuple[str, ...] = ()

    @property
    def grep(self) -> Grep:
        """The search that the tools use, within the time that the settings give it."""
        search = partial(grep, means=SearchLimits.of(self.settings, self.vault))
        return grep_without_question(search, self.asking, self.questions) if self.asking or self.questions else search

    @property
    def open_file(self) -> OpenFile | None:
        """Opens stored files, when there is a vault."""
        return None if self.vault is None else vault_opener(self.vault)

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


_INTRO = """\
# Tools

This page is made from the table in `lossless.recall.tools`; `python -m lossless.recall.tools
docs/reference/tools.md` writes it. [Recall](../recall.md) says how the tools work together.

An agent gets the first six in every host, and over [MCP](../hosts/mcp.md) all seven. Whatever it sends,
the result is a text of at most 40,000 characters. A call that cannot be done returns JSON:
`{"error": …, "hint": …, "errorCode": …}`. Names in snake case, numbers as text and a single text instead
of a list are understood.

Each of the six looks at the conversation of the calling session and its earlier ones. `conversationId` names
another one, `allConversations` means all, as far as the setting `recallScope` lets it reach. A sub-agent sees what
its grant names and nothing else.
"""
_ONLY_MCP = "Over [MCP](../hosts/mcp.md), and not for sub-agents. "
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
    "strings": "list of texts",
    "time": "time",
}


def tools_page() -> str:
    """The page as Markdown."""
    return "\n".join([_INTRO, *(_section(tool) for tool in ALL_TOOLS)])


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    return write_page("lossless.recall.tools", tools_page, arguments)


def _section(tool: Tool) -> str:
    rows = ["| Argument | Type | Default | Allowed | Meaning |", "|---|---|---|---|---|"]
    for one in tool.parameters:
        default = "required" if one.required else ""
        if not one.required and one.default not in (None, ()):
            default = f"`{str(one.default).lower() if isinstance(one.default, bool) else one.default}`"
        allowed = ", ".join(f"`{choice}`" for choice in one.choices)
        if not allowed and one.minimum is not None:
            allowed = f"≥ {one.minimum}" if one.maximum is None else f"{one.minimum} … {one.maximum}"
        cells = (f"`{one.name}`", _KINDS[one.kind], default, allowed, one.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    where = _ONLY_MCP if tool is STATUS_TOOL else ""
    return f"## `{tool.name}`\n\n{where}{tool.help}\n\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

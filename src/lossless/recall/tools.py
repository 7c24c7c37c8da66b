"""The tools that agents get, declared once: MCP, OpenAI and Anthropic schemas, hosts and the page follow from here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import LosslessError
from lossless.model.conversations import Session, as_session
from lossless.recall import calls
from lossless.recall.arguments import Parameter, read_arguments, schema_of
from lossless.recall.asker import without_asking
from lossless.recall.calls import ToolResult, error_result, refusal
from lossless.recall.file_page import DEFAULT_BYTES, MAX_BYTES, MIN_BYTES, from_vault
from lossless.recall.grep import Means, grep
from lossless.recall.scope import Caller
from lossless.recall.status import call_status
from lossless.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.files.vault import Vault
    from lossless.recall.arguments import Arguments
    from lossless.recall.delegate import Delegate, Model
    from lossless.recall.file_page import OpenFile
    from lossless.recall.scope import Grep
    from lossless.store.archive import Archive

Function: TypeAlias = "Callable[[Toolbox, Arguments, Caller], ToolResult]"

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


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what it is called, what it takes, what it does."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    function: Function

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return schema_of(self.parameters)


#: What a model gets beside its conversation, in every host.
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
                "scope",
                "string",
                "Where to look.",
                default="both",
                choices=("messages", "summaries", "both", "files"),
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
                default=DEFAULT_BYTES,
                minimum=MIN_BYTES,
                maximum=MAX_BYTES,
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
        "Have a question answered from compacted history, with the ids that carry the answer. Somebody else reads, so "
        "your context stays small; it may take about two minutes.",
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
            Parameter(
                "maxTokens",
                "integer",
                "The most tokens of evidence; the setting recallMaxTokens else.",
                minimum=1,
                maximum=100_000,
                clamps=True,
            ),
            *_WHERE,
        ),
        calls.call_recall,
    ),
)
#: For agents that stand outside of a conversation and have to find it first: those that ask over MCP.
STATUS = Tool(
    "lcm_status",
    "How much is kept, when something was stored last, whether anything is held up, and the newest conversations "
    "with the numbers that the other tools take as conversationId.",
    (Parameter("limit", "integer", "How many conversations to list.", default=10, minimum=1, maximum=50, clamps=True),),
    call_status,
)
ALL_TOOLS = (*TOOLS, STATUS)
BY_NAME = {tool.name: tool for tool in ALL_TOOLS}


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
    #: The model that answers questions, and the one to ask when that refuses.
    models: tuple[Model, ...] = ()
    #: The host's own sub-agents.
    delegate: Delegate | None = None
    monotonic: Callable[[], float] = time.monotonic
    #: For those who read on behalf of a question: the messages that ask it, and its words. They do not find them.
    asking: frozenset[int] = frozenset()
    questions: tuple[str, ...] = ()

    @property
    def grep(self) -> Grep:
        """The search that the tools use, within the time that the settings give it."""
        settings = self.settings
        means = Means(settings.regex_timeout_ms / 1000, settings.trigram_index, settings.regex_engine, self.vault)
        search = partial(grep, means=means)
        return without_asking(search, self.asking, self.questions) if self.asking or self.questions else search

    @property
    def open_file(self) -> OpenFile | None:
        """Opens stored files, when there is a vault."""
        return None if self.vault is None else from_vault(self.vault)

    def call(self, name: str, args: object = None, caller: Caller = _ANYONE) -> ToolResult:
        """Use a tool. Whatever the arguments are, the result is a text: an error is one, too, as JSON."""
        tool = BY_NAME.get(name)
        if tool is None:
            return error_result(f"there is no tool {name!r:.60}", hint=f"There are {', '.join(BY_NAME)}.")
        try:
            return tool.function(self, read_arguments(tool.parameters, args), caller)
        except LosslessError as error:
            return refusal(error, caller)

    def run(self, name: str, args: object = None, *, session: Session | str | None = None) -> ToolResult:
        """Use a tool as an agent of this session would."""
        return self.call(name, args, Caller(None if session is None else as_session(session)))

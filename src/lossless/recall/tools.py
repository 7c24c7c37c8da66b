"""The tools for agents, declared in `tools.toml`: schemas, argument checks, the toolbox and the documentation page.

`python -m lossless.recall.tools docs/reference/tools.md` writes the page; with `--check` it only reports whether
the page is current.
"""

from __future__ import annotations

import json
import re
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput, LosslessError
from lossless.model.conversations import Session, as_session
from lossless.model.times import parse_time
from lossless.recall import calls
from lossless.recall.calls import ToolCallResult, error_result, error_to_result
from lossless.recall.evidence import grep_without_question
from lossless.recall.scope import Caller, visible_conversations
from lossless.recall.search import SearchLimits, grep
from lossless.settings import Settings
from lossless.settings.page import write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.files.vault import Vault
    from lossless.llm.completion import Complete
    from lossless.recall.delegate import Delegate
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


def _declared() -> Iterator[Tool]:
    """The tools of `tools.toml`, in its order."""
    tables = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))
    shared = tables.pop("shared")
    for name, table in tables.items():
        parameters = []
        for argument, own in table["parameters"].items():
            fields = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
            parameters.append(Parameter(argument, **(fields or shared[argument])))
        yield Tool(name, table["help"], tuple(parameters), getattr(calls, name.replace("lcm_", "call_")))


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


_ONLY_MCP = "Over [MCP](../hosts/mcp.md), and not for sub-agents. "
_KINDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "strings": "list of texts"}


def tools_page() -> str:
    """The page as Markdown."""
    head = Path(__file__).with_name("templates").joinpath("tools_page.md").read_text(encoding="utf-8")
    return "\n".join([head, *(_section(tool) for tool in ALL_TOOLS)])


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
        cells = (f"`{one.name}`", _KINDS.get(one.kind, one.kind), default, allowed, one.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    where = _ONLY_MCP if tool is STATUS_TOOL else ""
    return f"## `{tool.name}`\n\n{where}{tool.help}\n\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Google ADK: a plugin that keeps a session's contents and fits what each model request sees.

app = App(name="port", root_agent=agent, plugins=[LosslessPlugin(engine, budget=128_000)])
runner = InMemoryRunner(app=app)
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lossless.context.render import RECALL_POLICY
from lossless.formats.codec import arguments_object
from lossless.hosts import adapter
from lossless.hosts.adapter import Raw, WindowSync
from lossless.model.conversations import Session
from lossless.providers.token_limits import overhead_tokens
from lossless.recall.tools import TOOLS, Tool

with adapter.extra("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.messages import Message

#: So many requests are remembered at once.
_MOST_SENT = 1_000


class LosslessPlugin(BasePlugin):
    """Keeps sessions in an archive, by app, user and session id, and gives the model the recall tools.

    All agents of a session have one history. One that is shown only a part of it (it runs in parallel, on a task of
    its own, or without earlier turns) has a session of its own, named after it.
    """

    def __init__(self, engine: Engine, *, budget: int | None = None, name: str = "lossless") -> None:
        super().__init__(name=name)
        self._windows = WindowSync(engine, "google-adk", budget)
        #: What the last request of each agent in a run said.
        self._sent: dict[tuple[str, str], list[Any]] = {}
        #: By agent, the tokens sent besides the contents, and the model.
        self._overhead_and_model: dict[str, tuple[int, str | None]] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Keep what the request says, and fit it; the session's events stay as they are."""
        view = AgentView(self._windows, llm_request.contents, callback_context.session.events)
        self._sent[callback_context.invocation_id, callback_context.agent_name] = list(llm_request.contents)
        if len(self._sent) > _MOST_SENT:  # a run that was cancelled never ends
            del self._sent[next(iter(self._sent))]
        llm_request.append_instructions([RECALL_POLICY])
        llm_request.append_tools([RecallTool(self._windows, tool) for tool in TOOLS])
        # what is sent besides the contents: instructions and tools, ours among them
        config, system = llm_request.config, llm_request.config.system_instruction
        system = system if isinstance(system, str) or system is None else str(system)
        tools = [tool.model_dump(mode="json", exclude_none=True) for tool in config.tools or ()]
        known = overhead_tokens(system, tools), llm_request.model or None
        self._overhead_and_model[callback_context.agent_name] = known
        fitting = await asyncio.to_thread(self._windows.fit, _session(callback_context), view.window, *known)
        if fitting is not None:
            llm_request.contents = view.given_back(fitting)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Keep the reply, once it is whole."""
        sent = self._sent.get((callback_context.invocation_id, callback_context.agent_name))
        if sent is None or llm_response.partial or llm_response.content is None:
            return
        sent.append(llm_response.content)
        counted = llm_response.usage_metadata
        tokens = counted.prompt_token_count if counted else None
        window = AgentView(self._windows, sent, callback_context.session.events).window
        known = self._overhead_and_model[callback_context.agent_name]
        await asyncio.to_thread(self._windows.turn, _session(callback_context), window, tokens, *known)

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        """Learn from a request that was too long; the error stays what it is."""
        overhead, _ = self._overhead_and_model.get(callback_context.agent_name, (0, None))
        session, model = _session(callback_context), llm_request.model or None
        await asyncio.to_thread(self._windows.refused, session, error, overhead, model)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        for key in [key for key in self._sent if key[0] == invocation_context.invocation_id]:
            del self._sent[key]


class RecallTool(BaseTool):
    """One of the recall tools; it looks into the session of the agent that asks."""

    def __init__(self, windows: WindowSync, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.help)
        self._windows, self._schema = windows, tool.schema

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return {"result": await asyncio.to_thread(self._windows.call, _session(tool_context), self.name, args)}


def _session(context: Any) -> Session:
    known, running = context.session, context.get_invocation_context()
    # an agent that is shown only a part of the session is apart, so that others' words are not missing there
    is_scoped = running.branch or getattr(running, "isolation_scope", None)
    is_apart = is_scoped or getattr(running.agent, "include_contents", "default") == "none"
    below = f":{running.agent.name}" if is_apart else ""
    return Session(key=f"adk:{known.app_name}:{known.user_id}:{known.id}{below}")


# --- contents as chat messages and back: call ids, function results, and what agents are shown of each other ---

#: How the ids begin that ADK makes itself; whether they are sent depends on the model that a request is for.
_OWN = "adk-"


class CallIds:
    """Ids for calls that have none, as ADK sends them to Gemini: by name and arguments, and which of them it is.

    Results go to the calls of their name in the model's last content, in the order in which these were made.
    """

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._open: list[tuple[Any, str]] = []

    def chat_calls(self, calls: Iterable[Any]) -> list[Raw]:
        """The calls of one content of the model, as a chat message has them."""
        self._open = []
        for call in calls:
            id_ = str(call.id or "")
            if not id_ or id_.startswith(_OWN):
                id_ = f"{call.name}-{blake2b(_json(call.args or {}).encode(), digest_size=6).hexdigest()}"
                self._made[id_] += 1
                id_ += f"-{self._made[id_]}" if self._made[id_] > 1 else ""
            self._open.append((call, id_))
        return [
            {"id": id_, "type": "function", "function": {"name": call.name, "arguments": _json(call.args or {})}}
            for call, id_ in self._open
        ]

    def of_result(self, result: Any) -> str:
        """The id of the call that a result belongs to."""
        same = [one for one in self._open if one[0].name == result.name]
        found = next((one for one in same if one[0].id == result.id), same[0] if same else None)
        if found is None:
            return str(result.id or result.name)
        self._open.remove(found)
        return found[1]


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


#: How ADK begins a content that quotes another agent.
_PREAMBLE = "For context:"
#: One thing that another agent did: who, what (said, or the tool that it called or that answered), and the words.
_QUOTE = re.compile(
    r"\[([^\]\n]+)\] (said|thought|called tool `.*?` with parameters|`.*?` tool returned result):\s(.*)", re.DOTALL
)
#: What ADK puts around the words of others, and in the place of such marks within them.
_MARKS = re.compile(r"<<<(?:(?:BEGIN|END)_QUOTED_AGENT_CONTENT|ELIDED_MARKER)>>>")

_Quote = tuple[tuple[str, str, str], ...]


def original_contents(events: Iterable[Any], contents: Iterable[Any]) -> list[Any]:
    """Contents as the agents of a session's events made them; a quote of something unknown stays a quote."""
    unmatched: dict[_Quote, list[Any]] = {}
    for event in events:
        if event.content and (quote := _quoted_content(event.author, event.content.parts or ())):
            unmatched.setdefault(quote, []).append(event.content)
    made = []
    for content in contents:
        found = unmatched.get(quoted) if (quoted := _quoted(content)) else None
        made.append((found.pop(0) if len(found) > 1 else found[0]) if found else content)
    return made


def _key(own: Any) -> str:
    return json.dumps(_without_ids(own), sort_keys=True, default=str)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_ids(item)
            for name, item in value.items()
            if not (name == "id" and isinstance(item, str) and item.startswith(_OWN))
        }
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def _quoted_content(author: str, parts: Iterable[Any]) -> _Quote:
    made = []
    for part in parts:
        if part.thought:
            continue
        if part.text and part.text.strip():
            made.append((author, "said", _plain(part.text)))
        elif call := part.function_call:
            args = dict(sorted(call.args.items())) if call.args else call.args
            made.append((author, _plain(f"called tool `{call.name}` with parameters"), _plain(str(args))))
        elif result := part.function_response:
            made.append((author, _plain(f"`{result.name}` tool returned result"), _plain(str(result.response))))
    return tuple(made)


def _quoted(content: Any) -> _Quote:
    parts = content.parts or []
    if content.role != "user" or not parts or not (parts[0].text or "").startswith(_PREAMBLE):
        return ()
    found = [_QUOTE.fullmatch(part.text) for part in parts[1:] if part.text]
    return tuple(
        (quote[1], _plain(quote[2]), _plain(quote[3])) for quote in found if quote is not None and quote[2] != "thought"
    )


def _plain(text: str) -> str:
    return _MARKS.sub("", text).strip()


class AgentView:
    """What one agent's request says, as the session has it: quotes of other agents are what these have said."""

    def __init__(self, windows: WindowSync, contents: Sequence[Any], events: Iterable[Any] = ()) -> None:
        self._windows, self._contents, names = windows, list(contents), CallIds()
        self._originals = original_contents(events, contents)
        self.window: list[Raw] = []
        #: The calls of other agents, which this one is only told about.
        self._relayed: set[str] = set()
        for original, content in zip(self._originals, self._contents, strict=True):
            made = _messages(windows, original, names)
            self.window += made
            if original is not content:
                self._relayed |= {call["id"] for one in made for call in one.get("tool_calls", ())}

    def given_back(self, messages: Sequence[Message]) -> list[Any]:
        """The request's contents where they stand for themselves, new ones for what we wrote or came another way."""
        made: list[Any] = []
        shown: dict[str, list[Any]] = {}  # what the agent is shown for each content; each is given once
        for original, content in zip(self._originals, self._contents, strict=True):
            key = _key(original.model_dump(mode="json", exclude_none=True, fallback=str))
            shown.setdefault(key, []).append(content)
        for message in reversed(messages):
            own = self._windows.own(message)
            if own:
                found = shown.get(_key(own))
                made.append(found.pop() if found else types.Content.model_validate(own))
            elif own is None and message.role != "system":
                made.append(_written(message, self._relayed))
        return made[::-1]


def _messages(windows: WindowSync, content: Any, names: CallIds) -> list[Raw]:
    """A content as chat messages; several results in one become several, the first of which carries it."""
    own = content.model_dump(mode="json", exclude_none=True, fallback=str)
    parts = content.parts or []
    blocks = adapter.chat_content(block for part in parts if (block := _block(part)))
    answers: list[Raw] = [
        {"role": "tool", "tool_call_id": names.of_result(given), "name": given.name, "content": _json(given.response)}
        for part in parts
        if (given := part.function_response)
    ]
    if content.role == "model":
        calls = names.chat_calls(part.function_call for part in parts if part.function_call)
        answers = [{"role": "assistant", "content": blocks or None} | ({"tool_calls": calls} if calls else {})]
    elif blocks or not answers:
        answers.append({"role": "user", "content": blocks})
    return [windows.carrying(one, own if n == 0 else {}) for n, one in enumerate(answers)]


def _block(part: Any) -> Raw | None:
    if part.text and not part.thought:
        return adapter.text_block(part.text)
    if part.inline_data and part.inline_data.data:
        return adapter.media_block(part.inline_data.mime_type, part.inline_data.data, part.inline_data.display_name)
    if part.file_data:
        return adapter.mention_block("file", part.file_data.file_uri, part.file_data.mime_type)
    if part.executable_code:
        return adapter.text_block(part.executable_code.code or "")
    if part.code_execution_result:
        return adapter.text_block(part.code_execution_result.output or "")
    return None


def _written(message: Message, relayed: Container[str]) -> Any:
    if message.tool_results and message.tool_results[0].call_id in relayed:
        result = message.tool_results[0]
        return _quote([f"`{result.name or 'tool'}` tool returned result:\n{result.text}"])
    if any(call.id in relayed for call in message.tool_calls):
        texts = [f"said:\n{message.content}"] if message.content else []
        return _quote(
            [*texts, *(f"called tool `{c.name}` with parameters:\n{arguments_object(c)}" for c in message.tool_calls)]
        )
    if message.role == "assistant":
        text = [types.Part(text=message.content)] if message.content or not message.tool_calls else []
        calls = [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=arguments_object(call)))
            for call in message.tool_calls
        ]
        return types.Content(role="model", parts=[*text, *calls])
    if message.tool_results:
        result = message.tool_results[0]
        found: Any = result.text
        with suppress(ValueError):
            found = json.loads(found)
        response = found if isinstance(found, dict) else {"result": found}
        answer = types.FunctionResponse(id=result.call_id, name=result.name or "tool", response=response)
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    return types.Content(role="user", parts=[types.Part(text=message.content)])


def _quote(done: Iterable[str]) -> Any:
    """What another agent did, when ADK's own words for it are too long to be sent."""
    lines = ["For context: what another agent did.", *(f"[another agent] {one}" for one in done)]
    return types.Content(role="user", parts=[types.Part(text=text) for text in lines])

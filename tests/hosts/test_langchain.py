"""LangChain with the real package (`make test-host HOST=langchain`): threads, checkpoints, async."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from lossless.providers.token_limits import recall_tool_tokens
from tests.compaction.loop_kit import settings, talk
from tests.hosts.examples import run_example, run_page

pytest.importorskip("langchain", reason="its own environment has it")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from lossless.hosts.adapter import WindowSync
from lossless.hosts.langchain import LosslessMiddleware, from_langchain, to_langchain
from lossless.hosts.langgraph import LosslessSaver

if TYPE_CHECKING:
    from pathlib import Path


class Parrot(BaseChatModel):
    """Calls a tool once for each question with a question mark."""

    seen: list[Any] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(messages)
        last = messages[-1]
        if last.content == "boom":
            raise RuntimeError("the provider is down")
        reply = AIMessage(f"Reply {len(self.seen)}.")
        if last.type == "human" and last.content.endswith("?"):
            call = {"name": "lcm_recall", "args": {"question": last.content}, "id": f"call_{len(self.seen):012d}"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def said(engine: lossless.Engine) -> list[tuple[str, str]]:
    rows = engine.archive.database.rows("SELECT role, content FROM messages ORDER BY message_id", ())
    return [(str(role), str(content)) for role, content in rows]


def ask(agent: Any, text: str, thread: str) -> list[Any]:
    config = {"configurable": {"thread_id": thread}}
    state = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)
    messages: list[Any] = state["messages"]
    return messages


def test_threads_are_sessions_and_the_state_keeps_everything(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, settings(), background=False) as engine:
        middleware = LosslessMiddleware(engine, budget=4_000)
        agent = create_agent(model, system_prompt="Be brief.", middleware=[middleware], checkpointer=InMemorySaver())
        ask(agent, "The key is in the vault.", "one")
        state = ask(agent, "Where is the key?", "one")
        assert "vault" in state[-2].content
        for message in talk(60):
            state = ask(agent, message["content"], "one")
        assert len(state) == 126
        assert len(model.seen[-1]) < 60
        assert "<summary" in str(model.seen[-1])
        assert "Be brief." in model.seen[-1][0].content
        ask(agent, "other thread", "two")
        counts = engine.archive.database.rows(
            "SELECT session_key, count(*) FROM conversations JOIN messages USING (conversation_id) GROUP BY 1", ()
        )
        assert [tuple(row) for row in counts] == [("one", 127), ("two", 3)]
        assert engine.verify().ok


def test_a_thread_that_goes_back_does_not_see_what_came_after(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, settings(), background=False) as engine:
        agent = create_agent(model, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
        for n in range(1, 5):
            ask(agent, f"question {n}", "t")
        states = agent.get_state_history({"configurable": {"thread_id": "t"}})
        agent.invoke(None, next(one for one in states if len(one.values.get("messages", [])) == 3).config)
        seen = [message.content for message in model.seen[-1] if message.type != "system"]
        assert seen == ["question 1", "Reply 1.", "question 2"]
        assert ("assistant", "Reply 4.") in said(engine)
        assert engine.verify().ok


PASTE = "the ferry is late " * 560
PASTES = ("hello", PASTE, PASTE + " again", "and now?")


def test_a_large_paste_is_whole_while_it_fits_and_then_a_reference(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        middleware = LosslessMiddleware(engine, budget=4_000 + recall_tool_tokens())
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        for text in PASTES:
            state = ask(agent, text.removesuffix("?"), "t")
        assert [str(seen).count(PASTE) for seen in model.seen] == [0, 1, 1, 0]
        assert [str(seen).count("[LCM Raw Payload: file_") for seen in model.seen] == [0, 0, 1, 2]
        assert [message.content for message in state[::2]] == [text.removesuffix("?") for text in PASTES]
        assert engine.verify().ok


def test_a_graph_with_large_pastes(path: Path) -> None:
    seen = []
    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        saver = LosslessSaver(InMemorySaver(), engine, budget=4_000)

        def node(state: Any) -> Any:
            seen.append(str(saver.fit(state["messages"])))
            return {"messages": [AIMessage(f"ok {len(seen)}")]}

        graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
        for text in PASTES:
            ask(graph, text, "t")
        assert [one.count(PASTE) for one in seen] == [0, 1, 1, 0]
        assert engine.verify().ok


PICTURE = b64encode(b"\x89PNG\r\n\x1a\n" * 9).decode()
ODD = [
    HumanMessage([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}]),
    HumanMessage(content_blocks=[{"type": "video", "url": "https://example.org/a.mp4"}]),
    HumanMessage(content_blocks=[{"type": "file", "url": "https://example.org/a.pdf"}]),
    HumanMessage(content_blocks=[{"type": "text-plain", "text": "a page", "mime_type": "text/plain"}]),
    HumanMessage([{"type": "media", "mime_type": "video/mp4", "data": PICTURE}]),
    HumanMessage([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a page"}}]),
    HumanMessage([{"type": "search_result", "title": "a", "content": [{"type": "text", "text": "found"}]}]),
    HumanMessage(["words", {"no": "type"}]),
    HumanMessage("with a thing", additional_kwargs={"thing": {"is": PICTURE, "nan": float("inf")}}),
    ChatMessage("hm", role="critic"),
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_messages_are_kept_once_and_come_back(path: Path, odd: Any) -> None:
    head = [HumanMessage("human " * 6_000), AIMessage("model " * 6_000)]
    with lossless.open(path, settings(), background=False) as engine:
        windows, session = WindowSync(engine, "langchain", 4_000), lossless.Session(key="s")
        fitting = windows.fit(session, from_langchain(windows, [*head, odd]))
        assert fitting is not None
        last = to_langchain(windows, fitting)[-1]
        assert (type(last), last.content) == (type(odd), odd.content)
        reply = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}])
        windows.turn(session, from_langchain(windows, [*head, odd, reply]))
        windows.fit(session, from_langchain(windows, [*head, odd, reply, HumanMessage("next")]))
        assert [content for _, content in said(engine)][3:] == ["ok", "next"]
        assert engine.verify().ok


def test_what_a_tool_leaves_for_the_program_stops_nobody(path: Path) -> None:
    def look() -> tuple[str, Any]:
        """Look."""
        return "found", {"raw": b"\xff", "seen": {1, 2}}

    class Caller(Parrot):
        def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
            calls = [] if messages[-1].type == "tool" else [{"name": "look", "args": {}, "id": "call_1"}]
            return ChatResult(generations=[ChatGeneration(message=AIMessage("ok", tool_calls=calls))])

    with lossless.open(path, settings(), background=False) as engine:
        tools = [tool(response_format="content_and_artifact")(look)]
        agent = create_agent(Caller(), tools, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
        assert ask(agent, "Look.", "t")[2].artifact["raw"] == b"\xff"
        assert said(engine)[-2:] == [("tool", "found"), ("assistant", "ok")]


def test_async_agents(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        agent = create_agent(Parrot(), middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())

        async def run() -> Any:
            config: Any = {"configurable": {"thread_id": "t"}}
            return await agent.ainvoke({"messages": [{"role": "user", "content": "Anything?"}]}, config)

        assert len(asyncio.run(run())["messages"]) == 4
        assert engine.verify().messages == 4


def test_failures_and_streams_leave_whole_turns(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        middleware = LosslessMiddleware(engine)
        agent = create_agent(Parrot(), middleware=[middleware], checkpointer=InMemorySaver())
        with pytest.raises(RuntimeError, match="down"):
            ask(agent, "boom", "t")
        config: Any = {"configurable": {"thread_id": "t"}}
        given: Any = {"messages": [{"role": "user", "content": "And on."}]}
        assert list(agent.stream(given, config, stream_mode="messages"))
        assert said(engine)[0] == ("user", "boom")
        assert [role for role, _ in said(engine)] == ["user", "user", "assistant"]
        assert engine.verify().ok


def test_a_thread_without_a_name_is_said_at_once(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        agent = create_agent(Parrot(), middleware=[LosslessMiddleware(engine)])
        with pytest.raises(BadInput, match="thread_id"):
            agent.invoke({"messages": [{"role": "user", "content": "hello"}]})
        with pytest.raises(BadInput, match="budget is a number"):
            LosslessMiddleware(engine, budget=0)


def test_what_came_in_by_another_door(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, background=False) as engine:
        engine.sync(
            lossless.Session(key="t"),
            [
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "README"},
                {"role": "assistant", "content": "One file."},
            ],
        )  # fmt: skip
        agent = create_agent(model, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
        ask(agent, "Thanks.", "t")
        seen = model.seen[-1]
        assert [one.type for one in seen] == ["system", "human", "ai", "tool", "ai", "human"]
        assert seen[2].tool_calls[0]["name"] == "ls"
        assert (seen[3].content, seen[3].tool_call_id) == ("README", "c1")


def graph(saver: Any, model: Parrot, *, is_async: bool = False) -> Any:
    """A hand-written graph with one node."""

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke([SystemMessage("Be brief."), *saver.fit(state["messages"])])]}

    async def anode(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(await saver.afit(state["messages"]))]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", anode if is_async else node)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def test_a_graph_of_your_own_is_kept_beside_its_checkpoints(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, settings(), background=False) as engine:
        inner = InMemorySaver()
        saver = LosslessSaver(inner, engine, budget=4_000)
        made = graph(saver, model)
        for message in talk(60):
            state = ask(made, message["content"], "one")
        assert len(state) == 120
        assert "<summary" in str(model.seen[-1])
        assert len(model.seen[-1]) < 60
        assert model.seen[-1][0].content == "Be brief."
        with pytest.raises(RuntimeError, match="down"):
            ask(made, "boom", "one")
        assert said(engine)[-1] == ("user", "boom")
        assert [content for _, content in said(engine)] == [*(str(one.content) for one in state), "boom"]
        config: Any = {"configurable": {"thread_id": "one"}}
        assert len(list(saver.list(config))) == len(list(inner.list(config)))
        assert {tool.name for tool in saver.tools} >= {"lcm_grep", "lcm_recall"}
        assert engine.verify().ok


def test_an_async_graph_and_a_checkpointer_that_is_filled_already(path: Path) -> None:
    inner, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    with lossless.open(path, background=False) as engine:
        ask(graph(LosslessSaver(inner, engine), Parrot()), "before", "t")
    path.unlink()
    with lossless.open(path, background=False) as engine:
        made = graph(LosslessSaver(inner, engine).with_allowlist([]), Parrot(), is_async=True)

        async def run() -> Any:
            return await made.ainvoke({"messages": [{"role": "user", "content": "after"}]}, config)

        assert len(asyncio.run(run())["messages"]) == 4
        assert [content for _, content in said(engine)][::2] == ["before", "after"]
        assert engine.verify().messages == 4


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_langchain", tmp_path).startswith("At quay seventeen.")


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead = {'init_chat_model("openai:gpt-4o")': Parrot(), '"openai:gpt-4o"': Parrot()}
    run_page("langchain", tmp_path, monkeypatch, instead)
    with lossless.open(tmp_path / "agents.db", background=False) as engine:
        assert engine.verify().messages == 4


def test_the_example_of_a_graph(tmp_path: Path) -> None:
    assert run_example("agents_langgraph", tmp_path).startswith("122 messages kept")

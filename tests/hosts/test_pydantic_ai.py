"""Pydantic AI with the real package: the wire is fitted, the history of the run is not touched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import lossless
from tests.compaction.loop_kit import settings, talk
from tests.hosts.examples import run_example

pytest.importorskip("pydantic_ai")

from pydantic_ai import (
    Agent,
    BinaryImage,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from lossless.hosts.adapter import WindowSync
from lossless.hosts.pydantic_ai import Lossless, from_pydantic, to_pydantic
from lossless.providers.token_limits import recall_tool_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def stored(engine: lossless.Engine) -> list[tuple[str, str]]:
    rows = engine.archive.database.rows("SELECT role, content FROM messages ORDER BY message_id", ())
    return [(str(role), str(content)) for role, content in rows]


def test_all_kinds_of_messages_are_kept_once(engine: lossless.Engine) -> None:
    sent: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        asked = sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        if asked < 2:
            return ModelResponse([TextPart("Looking."), ToolCallPart("look", {"n": asked}, f"call_{asked}")])
        return ModelResponse([TextPart("Done.")])

    agent = Agent(FunctionModel(model), system_prompt="Be brief.", capabilities=[Lossless(engine)])

    @agent.tool_plain(retries=2)
    def look(n: int) -> str:
        if n == 0:
            raise ModelRetry("try again")
        return "found"

    first = asyncio.run(agent.run("begin", conversation_id="c"))
    second = asyncio.run(agent.run(["a list", "of words"], message_history=first.all_messages(), conversation_id="c"))
    assert second.output == "Done."
    assert sent[-1] == second.all_messages()[:-1]
    assert [role for role, _ in stored(engine)] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert stored(engine)[-2:] == [("user", "a list\nof words"), ("assistant", "Done.")]
    assert engine.verify().ok


def test_what_has_no_words_is_shown_and_then_named(path: Path) -> None:
    picture = BinaryImage(b"\x89PNG\r\n\x1a\n" * 999, media_type="image/png")
    video = VideoUrl("https://example.org/a.mp4")
    asked = [ModelRequest([UserPromptPart(["look", picture])]), ModelRequest([UserPromptPart([video, "and now?"])])]
    long: list[ModelMessage] = [
        ModelRequest([UserPromptPart("user " * 6_000)]),
        ModelResponse([TextPart("model " * 6_000)]),
    ]
    with lossless.open(path, settings(), background=False) as engine:
        windows, session = WindowSync(engine, "pydantic-ai", 4_000), lossless.Session(key="s")

        def sent(*messages: ModelMessage) -> list[ModelMessage]:
            fitting = windows.fit(session, list(from_pydantic(windows, messages)))
            assert fitting is not None
            return to_pydantic(windows, fitting)

        assert sent(*long, asked[0])[-1].parts[-1] == asked[0].parts[0]
        drawn = ModelResponse([FilePart(picture)])
        then = sent(*long, asked[0], drawn, asked[1])
        assert "[User image: " in str(then[-3].parts[-1])
        assert "[Assistant image: " in str(then[-2].parts[-1])
        assert then[-1].parts == asked[1].parts
        assert all("data=b" not in text for _, text in stored(engine))
        assert stored(engine)[-1] == ("user", "[video-url: https://example.org/a.mp4]\nand now?")
        assert engine.verify().ok


def test_what_a_tool_leaves_for_the_program_stops_nobody(engine: lossless.Engine) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        is_asked = isinstance(messages[-1].parts[-1], ToolReturnPart)
        return ModelResponse([TextPart("Done.") if is_asked else ToolCallPart("look", {}, "call_1")])

    agent = Agent(FunctionModel(model), capabilities=[Lossless(engine)])

    @agent.tool_plain
    def look() -> ToolReturn:
        return ToolReturn("found", metadata=engine)

    assert asyncio.run(agent.run("look", conversation_id="c")).output == "Done."
    assert stored(engine)[-2:] == [("tool", "found"), ("assistant", "Done.")]


def test_a_run_that_goes_back_does_not_see_what_came_after(engine: lossless.Engine) -> None:
    sent: list[list[str]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append([str(getattr(part, "content", "")) for message in messages for part in message.parts])
        return ModelResponse([TextPart(f"answer {len(sent)}")])

    agent = Agent(FunctionModel(model), capabilities=[Lossless(engine)])
    histories: list[list[ModelMessage]] = [[]]
    for n in range(1, 5):
        run = agent.run(f"question {n}", message_history=histories[-1], conversation_id="c")
        histories.append(asyncio.run(run).all_messages())
    for again in ("question 2", "question 2, in other words"):
        asyncio.run(agent.run(again, message_history=histories[1], conversation_id="c"))
        assert sent[-1] == ["question 1", "answer 1", again]
    assert {"answer 4", "answer 5", "answer 6"} <= {text for _, text in stored(engine)}
    assert engine.verify().ok


def test_a_long_history_is_fitted_on_the_wire_alone(path: Path) -> None:
    sizes: list[int] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sizes.append(sum(len(str(getattr(part, "content", ""))) for m in messages for part in m.parts) // 4)
        return ModelResponse([TextPart(f"Reply {len(sizes)}.")])

    with lossless.open(path, settings(), background=False) as engine:
        agent = Agent(FunctionModel(model), capabilities=[Lossless(engine, budget=4_000 + recall_tool_tokens())])
        history: list[ModelMessage] = []
        for message in talk(50):
            run = agent.run(message["content"], message_history=history, conversation_id="c")
            history = asyncio.run(run).all_messages()
        assert len(history) == 100
        assert max(sizes) <= 4_000
        assert len(stored(engine)) == 100
        assert engine.verify().ok


def test_failures_and_streams_leave_whole_turns(engine: lossless.Engine) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise RuntimeError("the provider is down")

    async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "one "
        yield "two"
        if "break" in str(messages[-1].parts[-1]):
            raise RuntimeError("the line is cut")

    agent = Agent(FunctionModel(model, stream_function=streamed), capabilities=[Lossless(engine)])

    async def steps() -> None:
        with pytest.raises(RuntimeError, match="down"):
            await agent.run("fails", conversation_id="c")
        with pytest.raises(RuntimeError, match="cut"):
            async with agent.run_stream("breaks: break", conversation_id="c") as broken:
                await broken.get_output()
        async with agent.run_stream("streams", conversation_id="c") as result:
            assert await result.get_output() == "one two"

    asyncio.run(steps())
    assert stored(engine) == [
        ("user", "fails"), ("user", "breaks: break"), ("user", "streams"), ("assistant", "one two"),
    ]  # fmt: skip


def test_runs_at_once_are_sessions_of_their_own(engine: lossless.Engine) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(f"{len(messages)} seen")])

    agent = Agent(FunctionModel(model), capabilities=[Lossless(engine)])

    async def steps() -> list[str]:
        runs = await asyncio.gather(*(agent.run(f"run {n}", conversation_id=f"c{n}") for n in range(8)))
        return [run.output for run in runs]

    assert asyncio.run(steps()) == ["1 seen"] * 8
    keys = engine.archive.database.rows("SELECT session_key FROM conversations ORDER BY 1", ())
    assert [key for (key,) in keys] == [f"c{n}" for n in range(8)]


def test_a_large_paste_is_whole_while_it_fits_and_then_a_reference(path: Path) -> None:
    paste, seen = "the ferry is late " * 560, []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(str(messages))
        return ModelResponse([TextPart("ok")])

    async def steps(agent: Agent) -> None:
        history: list[ModelMessage] = []
        for text in ("hello", paste, f"{paste} again", "and now?"):
            history = (await agent.run(text, message_history=history, conversation_id="c")).all_messages()

    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        asyncio.run(
            steps(Agent(FunctionModel(model), capabilities=[Lossless(engine, budget=4_000 + recall_tool_tokens())]))
        )
        assert [one.count(paste) for one in seen] == [0, 1, 1, 0]
        assert [one.count("[LCM Raw Payload: file_") for one in seen] == [0, 0, 1, 2]
        assert engine.verify().ok


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_pydantic_ai", tmp_path).startswith("At quay seventeen.")


def test_the_tokenizer_of_a_model_is_learned_from_its_usage_and_its_refusals(engine: lossless.Engine) -> None:
    is_refused = [False]

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if is_refused[0]:
            raise RuntimeError("prompt is too long: 912345 tokens > 200000 maximum")
        made = ModelResponse([TextPart("Noted.")])
        made.usage.input_tokens = 2 * len(str(messages)) // 4
        return made

    agent = Agent(FunctionModel(model, model_name="m-1"), capabilities=[Lossless(engine, budget=200_000)])
    history: list[ModelMessage] = []
    for n in range(6):
        result = agent.run_sync(f"{n}: {talk(40)}", message_history=history, conversation_id="c")
        history = result.all_messages()
    ratio, _, count = engine.archive.guards.factor("m-1") or (0.0, 0.0, 0)
    assert count == 6
    assert ratio > 1
    is_refused[0] = True
    with pytest.raises(RuntimeError, match="too long"):
        agent.run_sync("once more", message_history=history, conversation_id="c")
    after = engine.archive.guards.factor("m-1")
    assert after is not None
    assert after[0] > ratio

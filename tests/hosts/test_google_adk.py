"""Google ADK with the real package (`make test-host HOST=google-adk`): a plugin in its runner."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from tests.compaction.loop_kit import settings
from tests.hosts.examples import run_example, run_page

pytest.importorskip("google.adk", reason="its own environment has it")

from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.flows.llm_flows.contents import _get_contents
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from lossless.hosts.adapter import WindowSync
from lossless.hosts.google_adk import AgentView, LosslessPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def test_contents_come_back_as_they_were(engine: lossless.Engine) -> None:
    contents = [
        types.Content(role="user", parts=[types.Part(text="look")]),
        types.Content(
            role="model",
            parts=[
                types.Part(text="hm", thought=True),
                types.Part(text="Looking."),
                types.Part(function_call=types.FunctionCall(id="c1", name="ls", args={"path": "."})),
                types.Part(function_call=types.FunctionCall(id="c2", name="pwd", args={})),
            ],
        ),
        types.Content(
            role="user",
            parts=[
                types.Part(function_response=types.FunctionResponse(id="c1", name="ls", response={"result": "README"})),
                types.Part(function_response=types.FunctionResponse(id="c2", name="pwd", response={"result": "/"})),
            ],
        ),
        types.Content(role="model", parts=[types.Part(text="Done.")]),
    ]
    session = lossless.Session(key="adk")
    windows = WindowSync(engine, "google-adk")
    view = AgentView(windows, contents)
    engine.sync(session, view.window)
    assert engine.sync(session, view.window).stored == 0
    made = engine.assemble(session, allow_trailing_assistant=True)
    assert view.given_back(made.parts) == contents
    assert engine.verify().ok


class Parrot(BaseLlm):
    """Repeats what it hears; `boom` is too much for it."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        """One reply, in pieces when it is streamed."""
        text = llm_request.contents[-1].parts[-1].text or ""
        if text == "boom":
            raise RuntimeError("the provider is down")
        for piece in ("one ", "two ") if stream else ():
            yield LlmResponse(content=model_says(piece), partial=True)
        yield LlmResponse(content=model_says("one two " if stream else f"{self.model} heard {text}"))


def model_says(text: str) -> Any:
    return types.Content(role="model", parts=[types.Part(text=text)])


def talked(
    engine: lossless.Engine, agent: Any, *texts: str, streamed: bool = False, budget: int | None = None
) -> dict[str, list[str]]:
    """What is stored of each session after the agent was told these texts."""

    async def run() -> None:
        plugin = LosslessPlugin(engine, budget=budget)
        runner = InMemoryRunner(app=App(name="port", root_agent=agent, plugins=[plugin]))
        await runner.session_service.create_session(app_name="port", user_id="me", session_id="s")
        config = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
        for text in texts:
            asked = types.Content(role="user", parts=[types.Part(text=text)])
            try:
                async for _ in runner.run_async(user_id="me", session_id="s", new_message=asked, run_config=config):
                    pass
            except RuntimeError:
                failed.append(text)
        await runner.close()

    failed: list[str] = []
    asyncio.run(run())
    assert failed == [text for text in texts if text == "boom"]
    made: dict[str, list[str]] = {}
    for key, content in engine.archive.database.rows(
        "SELECT session_key, content FROM messages JOIN conversations USING (conversation_id) ORDER BY message_id", ()
    ):
        made.setdefault(str(key), []).append(str(content))
    assert engine.verify().ok
    return made


def test_streams_and_failures_leave_whole_turns(engine: lossless.Engine) -> None:
    agent = LlmAgent(name="a", model=Parrot(model="m"))
    assert talked(engine, agent, "hello", "boom", "again", streamed=True) == {
        "adk:port:me:s": ["hello", "one two ", "boom", "again", "one two "]
    }


def test_agents_at_once_have_sessions_of_their_own(engine: lossless.Engine) -> None:
    both = [LlmAgent(name=name, model=Parrot(model=name)) for name in "ab"]
    assert talked(engine, ParallelAgent(name="both", sub_agents=both), "hello", "more") == {
        f"adk:port:me:s:{name}": ["hello", f"{name} heard hello", "more", f"{name} heard more"] for name in "ab"
    }


class Desk(BaseLlm):
    """An agent that hands over, looks something up, and hands back, as the user's last words say."""

    name_of: str
    seen: list[Any] = []  # noqa: RUF012

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:  # noqa: ARG002
        """`to desk: look` is handed to the desk, which looks before it answers."""
        self.seen.append((self.name_of, llm_request.contents))
        parts = [part for content in llm_request.contents for part in content.parts]
        asked = next(part.text for part in reversed(parts) if part.text and part.text.startswith("to "))
        desk, what = asked.removeprefix("to ").split(": ", 1)
        answered = llm_request.contents[-1].parts[-1].function_response
        if desk != self.name_of:
            yield LlmResponse(content=model_calls("transfer_to_agent", agent_name=desk))
        elif what.startswith("look") and answered is None:
            yield LlmResponse(content=model_calls("look", n=int(what.split()[1])))
        else:
            yield LlmResponse(content=model_says(f"{self.name_of} has done: {what}"))


def model_calls(name: str, **args: Any) -> Any:
    call = types.FunctionCall(name=name, args=args)
    return types.Content(role="model", parts=[types.Part(function_call=call)])


def test_agents_that_hand_over_keep_one_history(path: Path) -> None:
    told = [f"to {('front', 'back')[n // 2 % 2]}: {'look ' + str(n) if n % 3 else 'ok'}" for n in range(14)]
    seen: list[Any] = []
    models = {name: Desk(model="m", name_of=name) for name in ("front", "back")}
    for model in models.values():
        model.seen = seen
    back = LlmAgent(name="back", model=models["back"], tools=[look])
    front = LlmAgent(name="front", model=models["front"], tools=[look], sub_agents=[back])
    with lossless.open(path, settings(), background=False) as engine:
        made = talked(engine, front, *told, budget=5_500)
    assert list(made) == ["adk:port:me:s"]
    kept = made["adk:port:me:s"]
    assert [text for text in kept if text.startswith("to ")] == told
    assert [text for text in kept if "has done" in text] == [
        f"{text[3:].split(':')[0]} has done: {text.split(': ')[1]}" for text in told
    ]
    assert not any("For context" in text for text in kept)
    assert any("<summary" in str(contents) for _, contents in seen)
    for name, contents in seen:
        parts = [part for content in contents for part in content.parts]
        asked = [part.function_call.name for part in parts if part.function_call]
        assert [part.function_response.name for part in parts if part.function_response] == asked
        other = {"front": "back", "back": "front"}[name]
        own = [part.text for content in contents if content.role == "model" for part in content.parts if part.text]
        assert not any(text.startswith(f"{other} has done") for text in own)
    assert any("[front] said:" in str(contents) for name, contents in seen if name == "back")


def test_a_quote_that_is_too_long_is_still_told_as_another_agents(path: Path) -> None:
    large = types.FunctionResponse(name="look", response={"found": "the ferry is late " * 560})
    events = [
        Event(author="user", content=types.Content(role="user", parts=[types.Part(text="look")])),
        Event(author="back", content=model_calls("look", n=1)),
        Event(author="back", content=types.Content(role="user", parts=[types.Part(function_response=large)])),
        Event(author="back", content=model_says("Late.")),
    ]
    contents = _get_contents(None, events, "front")
    assert [content.role for content in contents] == ["user"] * 4
    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        windows = WindowSync(engine, "google-adk", 2_000)
        view = AgentView(windows, contents, events)
        assert [one["role"] for one in view.window] == ["user", "assistant", "tool", "assistant"]
        fitting = windows.fit(lossless.Session(key="s"), view.window)
        assert fitting is not None
        made = view.given_back(fitting)
    assert made[1] == contents[1]
    assert "[another agent] `look` tool returned result:" in made[2].parts[1].text
    assert "[LCM Tool Output: " in made[2].parts[1].text
    assert made[3] == contents[3]


def test_what_came_in_by_another_door(engine: lossless.Engine) -> None:
    session, windows = lossless.Session(key="s"), WindowSync(engine, "google-adk")
    engine.sync(
        session,
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "README"},
            {"role": "assistant", "content": "One file."},
        ],
    )  # fmt: skip
    made = AgentView(windows, []).given_back(engine.assemble(session, allow_trailing_assistant=True).parts)
    assert [content.role for content in made] == ["user", "model", "user", "model"]
    assert made[1].parts[0].function_call.args == {"path": "."}
    assert made[2].parts[0].function_response.response == {"result": "README"}


def test_results_that_came_as_one_stand_apart_when_one_of_them_is_too_large(path: Path) -> None:
    large, asked = "the ferry is late " * 560, [("a", "c1"), ("b", "c2"), ("c", "c3")]
    calls = [types.Part(function_call=types.FunctionCall(id=id_, name=name, args={})) for name, id_ in asked]
    results = [
        types.Part(function_response=types.FunctionResponse(id=id_, name=name, response={"result": text}))
        for (name, id_), text in zip(asked, ("small", large, "tiny"), strict=True)
    ]
    contents = [
        types.Content(role="user", parts=[types.Part(text="look")]),
        types.Content(role="model", parts=calls),
        types.Content(role="user", parts=results),
    ]
    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        windows = WindowSync(engine, "google-adk", 2_000)
        view = AgentView(windows, contents)
        fitting = windows.fit(lossless.Session(key="s"), view.window)
        assert fitting is not None
        made = view.given_back(fitting)
    answers = [part.function_response for content in made for part in content.parts if part.function_response]
    assert [answer.id for answer in answers] == ["c1", "c2", "c3"]
    assert "[LCM Tool Output: " in str(answers[1].response)
    assert large not in str(made)


class Looker(BaseLlm):
    """Looks twice at once, and again, before it answers."""

    seen: list[Any] = []  # noqa: RUF012

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:  # noqa: ARG002
        """Calls without ids, as Gemini makes them."""
        self.seen.append(llm_request.contents)
        last = llm_request.contents[-1].parts
        looked = len(last) if last[0].function_response else 0
        wanted = {0: (1, 2), 2: (1,)}.get(looked, ())
        calls = [types.Part(function_call=types.FunctionCall(name="look", args={"n": n})) for n in wanted]
        yield LlmResponse(content=types.Content(role="model", parts=calls or [types.Part(text="Done.")]))


def look(n: int) -> dict[str, Any]:
    """A long answer."""
    return {"n": n, "found": " ".join(f"w{n}x{k}" for k in range(150))}


def test_calls_of_one_function_are_told_apart_without_ids(path: Path) -> None:
    model = Looker(model="m")
    with lossless.open(path, settings(), background=False) as engine:
        plugin = LosslessPlugin(engine, budget=9_000)
        agent = LlmAgent(name="a", model=model, tools=[look])

        async def run() -> None:
            runner = InMemoryRunner(app=App(name="port", root_agent=agent, plugins=[plugin]))
            await runner.session_service.create_session(app_name="port", user_id="me", session_id="s")
            for n in range(6):
                asked = types.Content(role="user", parts=[types.Part(text=f"Look, {n}.")])
                async for _ in runner.run_async(user_id="me", session_id="s", new_message=asked):
                    pass
            await runner.close()

        asyncio.run(run())
        assert engine.verify().messages == 6 * 7
        assert engine.verify().ok
    assert "<summary" in str(model.seen[-1])
    for contents in model.seen:
        parts = [part for content in contents for part in content.parts]
        asked = [(part.function_call.name, part.function_call.args["n"]) for part in parts if part.function_call]
        told = [part.function_response for part in parts if part.function_response]
        assert [(one.name, int(re.findall(r"w(\d)x", str(one.response))[0])) for one in told] == asked


def test_what_has_no_words_is_shown_and_then_named(path: Path) -> None:
    picture = types.Part(inline_data=types.Blob(data=b"\x89PNG\r\n\x1a\n" * 99, mime_type="image/png"))
    link = types.Part(file_data=types.FileData(file_uri="gs://a/b.pdf", mime_type="application/pdf"))
    code = types.Part(executable_code=types.ExecutableCode(code="print(6 * 7)", language=types.Language.PYTHON))
    odd = types.Part(function_response=types.FunctionResponse(name="f", response={"x": {1}, "y": WindowSync}))
    contents = [
        *(types.Content(role=role, parts=[types.Part(text=f"{role} " * 6_000)]) for role in ("user", "model")),
        types.Content(role="user", parts=[picture]),
        types.Content(role="model", parts=[code]),
        types.Content(role="user", parts=[link]),
        types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={}))]),
        types.Content(role="user", parts=[odd, picture]),
    ]
    with lossless.open(path, settings(), background=False) as engine:
        windows, session = WindowSync(engine, "google-adk", 4_000), lossless.Session(key="s")

        def sent(count: int) -> list[Any]:
            view = AgentView(windows, contents[:count])
            fitting = windows.fit(session, view.window)
            assert fitting is not None
            return view.given_back(fitting)

        assert sent(3)[-1] == contents[2]
        then = sent(5)
        assert "[User image: " in str(then[-3])
        assert then[-2:] == contents[3:5]
        assert sent(7)[-1].parts[-1] == picture
        assert engine.verify().ok


def test_a_wrong_budget_is_said_at_once(engine: lossless.Engine) -> None:
    with pytest.raises(BadInput, match="budget is a number"):
        LosslessPlugin(engine, budget=-1)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("google-adk", tmp_path, monkeypatch, {'"gemini-2.5-flash"': Parrot(model="m")})
    assert "m heard hello" in capsys.readouterr().out


def test_the_example(tmp_path: Path) -> None:
    assert "At quay seventeen." in run_example("agents_google_adk", tmp_path)
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        assert engine.verify().ok
        assert engine.verify().messages == 126

"""`lossless.chat` and what else clients offer: copies, raw responses, parsing, many sessions at once, mistakes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

import lossless
from lossless.errors import BadInput
from lossless.testing.provider import Provider, Request, Say, last_text
from tests.hosts.test_chat import claude, client, looking, provider, said

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["claude", "client", "provider"]


class City(BaseModel):
    name: str


def ask(text: str) -> Any:
    return [{"role": "user", "content": text}]


def by_session(path: Path) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    with lossless.open(path, background=False) as engine:
        rows = engine.archive.database.rows(
            "SELECT session_key, content FROM messages JOIN conversations USING (conversation_id) ORDER BY message_id",
            (),
        )
        for key, content in rows:
            made.setdefault(str(key), []).append(str(content))
    return made


# --- many sessions at once -------------------------------------------------------------------------------------


def test_threads_share_a_client_and_not_a_session(client: openai.OpenAI, path: Path) -> None:
    both = threading.Barrier(4)

    def serve(name: str) -> None:
        with lossless.chat(client, name, archive=path):
            both.wait(60)
            for n in range(3):
                client.chat.completions.create(model="m", messages=ask(f"{name} {n}"))
            both.wait(60)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, "abcd"))
    kept = by_session(path)
    assert sorted(kept) == list("abcd")
    assert all(text.replace("You said: ", "").startswith(name) for name, texts in kept.items() for text in texts)
    assert all(len(texts) == 6 for texts in kept.values())
    assert "create" not in vars(client.chat.completions)


def test_tasks_share_a_client_and_not_a_session(provider: Provider, path: Path) -> None:
    async def loop() -> None:
        shared = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        with lossless.open(path, background=False) as engine:

            async def serve(name: str) -> None:
                async with lossless.chat(shared, name, archive=engine):
                    await shared.chat.completions.create(model="m", messages=ask(f"{name} asks"))

            async with shared:
                await asyncio.gather(*(serve(name) for name in "abc"))

    asyncio.run(loop())
    assert by_session(path) == {name: [f"{name} asks", f"You said: {name} asks"] for name in "abc"}


def test_threads_of_one_chat_are_kept_by_it(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, "one", archive=path), ThreadPoolExecutor(1) as pool:
        pool.submit(client.chat.completions.create, model="m", messages=ask("from a worker")).result()
    assert by_session(path) == {"one": ["from a worker", "You said: from a worker"]}


def test_a_call_that_belongs_to_no_chat_says_so(client: openai.OpenAI, path: Path) -> None:
    with (
        lossless.chat(client, "one", archive=path),
        lossless.chat(client, "two", archive=path),
        ThreadPoolExecutor(1) as pool,
    ):
        client.chat.completions.create(model="m", messages=ask("the inner one"))
        with pytest.warns(RuntimeWarning, match="not kept"):
            pool.submit(client.chat.completions.create, model="m", messages=ask("whose?")).result()
    assert by_session(path) == {"two": ["the inner one", "You said: the inner one"]}


# --- what clients offer besides --------------------------------------------------------------------------------


def test_copies_of_a_client_are_kept(client: openai.OpenAI, claude: anthropic.Anthropic, path: Path) -> None:
    with lossless.chat(client, "open", archive=path), lossless.chat(claude, "claude", archive=path):
        slow = client.with_options(timeout=60)
        slow.copy(max_retries=1).chat.completions.create(model="m", messages=ask("from a copy"))
        claude.with_options(timeout=60).messages.create(model="m", max_tokens=9, messages=ask("from another"))
    slow.chat.completions.create(model="m", messages=ask("after"))
    assert by_session(path) == {
        "open": ["from a copy", "You said: from a copy"],
        "claude": ["from another", "You said: from another"],
    }
    assert not {"copy", "with_options"} & set(vars(client))


def test_raw_responses(client: openai.OpenAI, claude: anthropic.Anthropic, provider: Provider, path: Path) -> None:
    early = client.chat.completions.with_raw_response
    with lossless.chat(client, "s", archive=path, tools="always"), lossless.chat(claude, "c", archive=path):
        raw = client.chat.completions.with_raw_response.create(model="m", messages=ask("raw"))
        assert raw.parse().choices[0].message.content == "You said: raw"
        assert raw.http_response.status_code == 200
        other = claude.messages.with_raw_response.create(model="m", max_tokens=9, messages=ask("too"))
        assert other.parse().stop_reason == "end_turn"
        late = client.chat.completions.with_raw_response
    assert by_session(path) == {"s": ["raw", "You said: raw"], "c": ["too", "You said: too"]}
    for one in (early, late, client.chat.completions.with_raw_response):
        assert one.create(model="m", messages=ask("after")).parse().choices[0].message.content == "You said: after"
    assert len(said(path)) == 4


def test_raw_responses_of_async_clients(provider: Provider, path: Path) -> None:
    async def loop() -> None:
        client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k")
        async with client, lossless.chat(client, "s", archive=path):
            await client.chat.completions.with_raw_response.create(model="m", messages=ask("raw"))
        claude = anthropic.AsyncAnthropic(base_url=provider.url, api_key="k")
        async with claude, lossless.chat(claude, "c", archive=path):
            await claude.messages.with_raw_response.create(model="m", max_tokens=9, messages=ask("too"))

    asyncio.run(loop())
    assert by_session(path) == {"s": ["raw", "You said: raw"], "c": ["too", "You said: too"]}


def test_raw_streams_keep_what_was_asked(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, archive=path):
        made: Any = client.chat.completions.with_raw_response.create(model="m", messages=ask("raw"), stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in made.parse() if c.choices) == "You said: raw"
        streaming = client.chat.completions.with_streaming_response
        with streaming.create(model="m", messages=[*ask("raw"), *ask("more")]) as response:
            assert response.parse().choices[0].message.content == "You said: more"
    assert said(path) == ["raw", "more"]


def test_parsed_replies(client: openai.OpenAI, claude: anthropic.Anthropic, provider: Provider, path: Path) -> None:
    provider.script = lambda _: Say('{"name": "Bergen"}')
    with lossless.chat(client, "s", archive=path, tools="always"), lossless.chat(claude, "c", archive=path):
        parsed = client.chat.completions.parse(model="m", messages=ask("where?"), response_format=City)
        assert parsed.choices[0].message.parsed == City(name="Bergen")
        reply = client.responses.parse(model="m", input=[*ask("where?"), *ask("and now?")], text_format=City)
        assert reply.output_parsed == City(name="Bergen")
        other = claude.messages.parse(model="m", max_tokens=9, messages=ask("where?"), output_format=City)
        assert other.parsed_output == City(name="Bergen")
    kept = by_session(path)
    assert kept["c"] == ["where?", '{"name": "Bergen"}']
    assert kept["s"][:2] == kept["c"]
    assert kept["s"][-1] == '{"name": "Bergen"}'


def test_beta_messages(claude: anthropic.Anthropic, path: Path) -> None:
    with lossless.chat(claude, archive=path):
        claude.beta.messages.create(model="m", max_tokens=9, messages=ask("hello"))
        with claude.beta.messages.stream(model="m", max_tokens=9, messages=ask("hello")) as stream:
            assert stream.get_final_message().stop_reason == "end_turn"
    assert said(path) == ["hello", "You said: hello"]


def test_responses_as_streams(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, archive=path):
        events: Any = client.responses.create(model="m", input="hello", stream=True)
        assert [event.type for event in events][-1] == "response.completed"
        items: Any = [*ask("hello"), {"role": "assistant", "content": "You said: hello"}, *ask("more")]
        with client.responses.stream(model="m", input=items) as stream:
            assert stream.get_final_response().output_text == "You said: more"
    assert said(path) == ["hello", "You said: hello", "more", "You said: more"]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_recall_inside_openais_stream_helpers(client: openai.OpenAI, provider: Provider, path: Path, api: str) -> None:
    provider.script = looking
    asked = [*ask("The key lies in the vault."), {"role": "assistant", "content": "Noted."}, *ask("where?")]
    with lossless.chat(client, archive=path, tools="always"):
        if api == "chat":
            with client.chat.completions.stream(model="m", messages=asked) as chunks:
                text = chunks.get_final_completion().choices[0].message.content
        else:
            with client.responses.stream(model="m", input=asked) as events:
                text = events.get_final_response().output_text
    assert text == "Let me see. In the vault."
    assert "".join(said(path)[3:]) == text


def test_messages_that_can_be_read_once(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, archive=path):
        made = client.chat.completions.create(model="m", messages=iter(ask("hello")))
        assert made.choices[0].message.content == "You said: hello"
    assert said(path) == ["hello", "You said: hello"]


def test_a_loop_with_tools_of_its_own(client: openai.OpenAI, provider: Provider, path: Path) -> None:
    def script(request: Request) -> Say:
        return Say("Done.") if last_text(request.body) == "README" else Say("", (("ls", {"path": "."}),))

    provider.script = script
    tools: Any = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]
    messages = ask("look")
    with lossless.chat(client, archive=path, tools="auto") as chat:
        while True:
            reply = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
            messages.append(reply)
            if not reply.tool_calls:
                break
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "README"} for call in reply.tool_calls]
    assert len(messages) == 4
    with lossless.open(path, background=False) as engine:
        made = engine.assemble(chat.session, allow_trailing_assistant=True).messages
        assert [one["role"] for one in made] == ["user", "assistant", "tool", "assistant"]
        assert engine.verify().ok


def test_anthropics_tool_runner(claude: anthropic.Anthropic, provider: Provider, path: Path) -> None:
    @anthropic.beta_tool
    def ls(path: str) -> str:
        """Lists files."""
        return f"README in {path}"

    provider.script = lambda r: Say("Done.") if "README" in last_text(r.body) else Say("", (("ls", {"path": "."}),))
    with lossless.chat(claude, archive=path):
        runner = claude.beta.messages.tool_runner(model="m", max_tokens=9, messages=ask("look"), tools=[ls])
        assert runner.until_done().content[0].type == "text"
    assert said(path) == ["look", "", "README in .", "Done."]


# --- things that go wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_stream_that_nobody_reads_to_its_end(provider: Provider, path: Path, is_async: bool) -> None:
    provider.script = lambda _: Say("one two three", words=3)
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k") as client:
        if not is_async:
            with lossless.chat(client, archive=path):
                left: Any = client.chat.completions.create(model="m", messages=ask("go"), stream=True)
                next(chunk for chunk in left if chunk.choices and chunk.choices[0].delta.content)
            left.close()

    async def loop() -> None:
        client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k")
        async with client, lossless.chat(client, archive=path):
            left: Any = await client.chat.completions.create(model="m", messages=ask("go"), stream=True)
            async for chunk in left:
                if chunk.choices and chunk.choices[0].delta.content:
                    break
        await left.close()

    if is_async:
        asyncio.run(loop())
    assert said(path) == ["go", "one "]


def test_a_call_that_failed_is_tried_again(client: openai.OpenAI, provider: Provider, path: Path) -> None:
    with lossless.chat(client, archive=path):
        provider.script = lambda _: 1 / 0  # type: ignore[assignment, return-value]
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(model="m", messages=ask("go"))
        provider.script = lambda _: Say("Here.")
        client.chat.completions.create(model="m", messages=ask("go"))
    assert said(path) == ["go", "Here."]


@pytest.mark.parametrize("client", [object(), openai.OpenAI, None, "gpt-4o"])
def test_what_is_no_client(client: Any, path: Path) -> None:
    with pytest.raises(BadInput, match=r"pass a client, such as openai\.OpenAI\(\)"):
        lossless.chat(client, archive=path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"window": 0}, "window is a number of tokens"),
        ({"window": "128k"}, "window is a number of tokens"),
        ({"tools": "yes"}, "tools is one of auto, always, never"),
        ({"session": " "}, "not blank"),
    ],
)
def test_wrong_options(client: openai.OpenAI, path: Path, wrong: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        lossless.chat(client, archive=path, **wrong)


def test_a_chat_is_open_once(client: openai.OpenAI, path: Path) -> None:
    chat = lossless.chat(client, archive=path)
    with pytest.raises(BadInput, match="not open"):
        _ = chat.engine
    with chat, pytest.raises(BadInput, match="open already"):
        chat.__enter__()
    with chat:
        client.chat.completions.create(model="m", messages=ask("again"))
    assert said(path) == ["again", "You said: again"]

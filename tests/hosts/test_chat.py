"""`lossless.chat` around the real clients: a hand-written loop is kept, and stays inside its window."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.testing.provider import Provider, Request, Say, last_text
from tests.compaction.loop_kit import settings, talk
from tests.hosts.examples import run_example

if TYPE_CHECKING:
    from collections.abc import Iterator

Raw = dict[str, Any]
WINDOW = 6_000


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as one:
        yield one


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0) as one:
        yield one


@pytest.fixture
def claude(provider: Provider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0) as one:
        yield one


def said(path: Path) -> list[str]:
    with lossless.open(path, background=False) as engine:
        assert engine.verify().ok
        rows = engine.archive.database.rows("SELECT content FROM messages ORDER BY message_id", ())
        return [str(content) for (content,) in rows]


def test_a_paste_beyond_the_window_is_sent_as_a_reference(
    path: Path, provider: Provider, client: openai.OpenAI
) -> None:
    paste, messages = " ".join(f"w{n}" for n in range(30_000)), []
    with lossless.chat(client, archive=path, window=WINDOW) as chat:
        for text in ("hello", paste, "and now?"):
            messages.append({"role": "user", "content": text})
            reply = client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
            messages.append({"role": "assistant", "content": str(reply.choices[0].message.content)[:99]})
        assert chat.engine.verify().ok
    assert messages[2]["content"] == paste
    assert all(len(request.content) < 4 * WINDOW for request in provider.requests)
    assert [b"[LCM Raw Payload: file_" in request.content for request in provider.requests] == [False, True, True]


def test_three_lines(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, "notes", archive=path):
        messages: Any = [{"role": "user", "content": "hello"}]
        reply = client.chat.completions.create(model="gpt-4o", messages=messages)
        messages += [reply.choices[0].message, {"role": "user", "content": "more"}]
        assert client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content
    assert said(path) == ["hello", "You said: hello", "more", "You said: more"]
    assert "create" not in vars(client.chat.completions)
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "not kept"}])
    assert len(said(path)) == 4


def test_a_chat_without_a_name_is_a_conversation_of_its_own(client: openai.OpenAI, path: Path) -> None:
    def ask(text: str, session: lossless.Session | str | None = None) -> lossless.Session:
        with lossless.chat(client, session, archive=path) as chat:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return chat.session

    first, second = ask("one's secret"), ask("another's secret")
    assert first != second
    assert str(first.key).startswith(f"chat:{Path(sys.argv[0]).stem.lstrip('-')}:")
    assert ask("more of it", first) == first
    assert ask("named", "notes") == ask("named again", "notes") == lossless.Session(key="notes")
    with lossless.open(path, background=False) as engine:
        rows = engine.archive.listings.conversations(9).rows
        assert {row.session_key: row.message_count for row in rows} == {first.key: 4, second.key: 2, "notes": 4}


def test_a_list_that_begins_anew_goes_on_unless_it_is_said_otherwise(
    client: openai.OpenAI, provider: Provider, path: Path
) -> None:
    def ask(*texts: str) -> list[str]:
        messages: Any = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
        client.chat.completions.create(model="m", messages=messages)
        return [message["content"] for message in provider.requests[-1].body["messages"]]

    with lossless.chat(client, "trip", archive=path) as chat:
        assert ask("Plan Rome.") == ["Plan Rome."]
        assert ask("Plan Rome.", "You said: Plan Rome.", "And food?")[-1] == "And food?"
        assert ask("And the weather?")[0] == "Plan Rome."  # what a message alone continues is the session
        assert ask("Plan Oslo.", "You said: Plan Rome.", "And food?")[0] == "Plan Oslo."  # edited, with what follows
        chat.engine.reset(chat.session)
        assert ask("Plan Bergen.") == ["Plan Bergen."]
    assert "Plan Rome." in said(path)


def test_a_long_loop_stays_inside_the_window(client: openai.OpenAI, provider: Provider, path: Path) -> None:
    messages: Any = [{"role": "system", "content": "Be brief."}]
    with lossless.chat(client, archive=path, settings=settings(), window=WINDOW) as kept:
        for n, message in enumerate(talk(32, words=110)):
            stream = n % 2 == 0
            messages.append({"role": "user", "content": message["content"]})
            made: Any = client.chat.completions.create(model="m", messages=messages, stream=stream)
            text = "".join(c.choices[0].delta.content or "" for c in made if c.choices) if stream else None
            messages.append({"role": "assistant", "content": text or made.choices[0].message.content})
        assert len(kept.engine.grep("ferry harbour", session=kept.session).hits) > 0
    assert len(messages) == 65
    assert max(estimate_tokens(json.dumps(request.body)) for request in provider.requests) <= WINDOW
    assert "<summary" in json.dumps(provider.requests[-1].body)
    assert provider.requests[-1].body["messages"][0] == messages[0]
    assert said(path) == [message["content"] for message in messages]


def test_anthropics_client(claude: anthropic.Anthropic, provider: Provider, path: Path) -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    messages: Any = []
    with lossless.chat(claude, archive=path, settings=settings(), window=WINDOW):
        for message in talk(32, words=110):
            messages.append({"role": "user", "content": message["content"]})
            request: Raw = {"model": "m", "max_tokens": 100, "system": system, "messages": messages}
            reply = claude.messages.create(**request)
            messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "user", "content": "79: and on"})
        final = ""
        stream: Any = claude.messages.create(**request, stream=True)
        for event in stream:
            final += event.delta.text if event.type == "content_block_delta" else ""
        assert final.startswith("You said: 79:")
    assert provider.requests[-1].body["system"] == system
    assert max(estimate_tokens(json.dumps(request.body)) for request in provider.requests) <= WINDOW


def test_anthropics_stream_helper(claude: anthropic.Anthropic, provider: Provider, path: Path) -> None:
    ask: Any = [{"role": "user", "content": "hello"}]
    with lossless.chat(claude, archive=path):
        with claude.messages.stream(model="m", max_tokens=9, messages=ask) as stream:
            assert stream.get_final_text() == "You said: hello"
            ask += [{"role": "assistant", "content": stream.get_final_message().content}]
        provider.script = lambda _: Say("one two three", words=4)
        ask += [{"role": "user", "content": "more"}]
        with claude.messages.stream(model="m", max_tokens=9, messages=ask) as stream:
            assert next(stream.text_stream) == "one "
    assert said(path) == ["hello", "You said: hello", "more", "one "]
    assert not {"create", "stream"} & set(vars(claude.messages))


def test_openais_stream_helper(client: openai.OpenAI, path: Path) -> None:
    ask: Any = [{"role": "user", "content": "hello"}]
    with lossless.chat(client, archive=path), client.chat.completions.stream(model="m", messages=ask) as stream:
        assert stream.get_final_completion().choices[0].message.content == "You said: hello"
    assert said(path) == ["hello", "You said: hello"]


def test_responses(client: openai.OpenAI, path: Path) -> None:
    with lossless.chat(client, archive=path):
        items: Any = [{"role": "user", "content": "hello"}]
        items += client.responses.create(model="m", input=items, instructions="Be brief.").output
        items.append({"role": "user", "content": "more"})
        assert client.responses.create(model="m", input=items, instructions="Be brief.").output_text == "You said: more"
    assert said(path) == ["Be brief.", "hello", "You said: hello", "more", "You said: more"]


def looking(request: Request) -> Say:
    if last_text(request.body) == "where?":
        return Say("Let me see. ", (("lcm_recall", {"question": "Where is the key?"}),))
    return Say("In the vault." if "vault" in last_text(request.body) else "Noted.")


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_recall_is_answered_for_you(client: openai.OpenAI, provider: Provider, path: Path, stream: bool) -> None:
    provider.script = looking
    messages: Any = [
        {"role": "user", "content": "The key lies in the vault."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "where?"},
    ]
    with lossless.chat(client, archive=path, tools="always"):
        made: Any = client.chat.completions.create(model="m", messages=messages, stream=stream)
        if stream:
            chunks = list(made)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            assert not any(chunk.choices[0].delta.tool_calls for chunk in chunks if chunk.choices)
        else:
            text = made.choices[0].message.content
            assert made.choices[0].message.tool_calls is None
    assert text == "Let me see. In the vault."
    assert said(path)[-1] == text
    assert len(provider.requests) == 2


def test_a_stream_that_is_closed_early(client: openai.OpenAI, provider: Provider, path: Path) -> None:
    provider.script = lambda _: Say("one two three", words=2)
    with lossless.chat(client, archive=path):
        stream: Any = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go"}], stream=True
        )
        with stream as chunks:
            for chunk in chunks:
                if chunk.choices[0].delta.content == "one ":
                    break
    assert said(path) == ["go", "one "]


def test_what_was_said_is_kept_when_the_provider_fails(client: openai.OpenAI, provider: Provider, path: Path) -> None:
    provider.script = lambda _: 1 / 0  # type: ignore[assignment, return-value]
    with lossless.chat(client, archive=path), pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
    assert said(path) == ["go"]


def test_a_message_that_nobody_knows_is_said_aloud(client: openai.OpenAI, path: Path) -> None:
    odd: Any = [{"content": "no role"}]
    with lossless.chat(client, archive=path), pytest.warns(RuntimeWarning, match="not kept"):
        client.chat.completions.create(model="m", messages=odd)


def test_async_clients(provider: Provider, path: Path) -> None:
    provider.script = looking

    async def loop() -> list[str]:
        texts = []
        ask: Any = [{"role": "user", "content": "The key lies in the vault."}]
        client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        async with client, lossless.chat(client, archive=path, tools="always"):
            made: Any = await client.chat.completions.create(model="m", messages=ask)
            texts.append(made.choices[0].message.content)
            ask += [made.choices[0].message, {"role": "user", "content": "where?"}]
            stream: Any = await client.chat.completions.create(model="m", messages=ask, stream=True)
            async with stream as chunks:
                texts.append("".join([c.choices[0].delta.content or "" async for c in chunks if c.choices]))
        claude = anthropic.AsyncAnthropic(base_url=provider.url, api_key="k", max_retries=0)
        async with claude, lossless.chat(claude, "other", archive=path):
            ask = [{"role": "user", "content": "vault"}]
            reply: Any = await claude.messages.create(model="m", max_tokens=9, messages=ask)
            texts.append(reply.content[0].text)
            async with claude.messages.stream(model="m", max_tokens=9, messages=ask) as events:
                texts.append(await events.get_final_text())
        return texts

    assert asyncio.run(loop()) == ["In the vault.", "Let me see. In the vault.", *["In the vault."] * 2]
    assert len(said(path)) == 6


def test_the_example(tmp_path: Path) -> None:
    assert run_example("chat_loop", tmp_path).startswith("Let me look. At quay seventeen.")

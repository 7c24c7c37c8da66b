"""The promise of a history that is appended to: every message once, in order, however often a request is sent."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

import lossless
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.turn import TurnRecorder
from lossless.testing.provider import Say, streamed, whole
from tests.compaction.loop_kit import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.providers.api import ProviderAPI

Raw = dict[str, Any]
SESSION = lossless.Session(key="bot:7")
PATHS: dict[str, tuple[ProviderAPI, str]] = {
    "chat": (ChatCompletions(), "/v1/chat/completions"),
    "responses": (ResponsesApi(), "/v1/responses"),
    "messages": (MessagesApi(), "/v1/messages"),
}
#: What becomes of a request: the client gets the reply, the provider fails, the reply breaks off.
FATES = st.sampled_from(["answered", "failed", "cut off"])
SAID = st.lists(st.tuples(st.sampled_from(["ok", "go on", "why?"]), FATES, FATES), min_size=1, max_size=6)


def events(path: str, say: Say, body: Raw) -> list[Raw]:
    """The events of a streamed reply."""
    lines = [line for raw in streamed(path, say, body) for line in raw.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line[6:]) for line in lines]


def ask(keeping: TurnRecorder, path: str, text: str, fate: str, reply: str) -> list[str]:
    """Send one request; returns the words of the prompt."""
    body: Raw = {"model": "m", "max_tokens": 50}
    body |= {"input": text} if path.endswith("responses") else {"messages": [{"role": "user", "content": text}]}
    turn = keeping.turn(body)
    if fate == "answered":
        turn.take(whole(path, Say(reply), turn.body))
    elif fate == "cut off":
        said = events(path, Say(reply), turn.body)
        for event in said[: len(said) // 2]:
            turn.stream.feed(event)
        turn.broken()
    return [words(message) for message in keeping.dialect.window(turn.body)]


def words(message: Raw) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


@contextmanager
def engine() -> Iterator[lossless.Engine]:
    with (
        tempfile.TemporaryDirectory() as folder,
        lossless.open(Path(folder) / "a.db", settings(), background=False) as opened,
    ):
        yield opened
        assert opened.verify().ok


@given(st.sampled_from(sorted(PATHS)), SAID)
@search(max_examples=12)
def test_a_request_is_stored_once_and_what_is_said_again_again(name: str, said: list[tuple[str, str, str]]) -> None:
    """Who gets no reply sends the same request until there is one; what is said next may be the same words."""
    dialect, path = PATHS[name]
    with engine() as opened:
        keeping = TurnRecorder(opened, SESSION, dialect, history="append")
        expected: list[str] = []
        for n, (text, *fates) in enumerate(said):
            expected.append(text)
            for fate in [*[fate for fate in fates if fate != "answered"], "answered"]:
                assert ask(keeping, path, text, fate, f"reply number {n} it is") == expected
            expected.append(f"reply number {n} it is")
        rows = opened.archive.database.rows("SELECT content FROM messages WHERE role = 'user' ORDER BY seq", ())
        assert [content for (content,) in rows] == [text for text, *_ in said]


def test_a_reply_that_was_kept_is_not_kept_again() -> None:
    dialect, path = PATHS["chat"]
    with engine() as opened:
        keeping = TurnRecorder(opened, SESSION, dialect, history="append")
        turn = keeping.turn({"model": "m", "messages": [{"role": "user", "content": "go"}]})
        for event in events(path, Say("the whole reply"), turn.body):
            turn.stream.feed(event)
        turn.end()
        turn.broken()  # the client was gone before the last event
        assert opened.verify().messages == 2
        assert ask(keeping, path, "go", "answered", "again") == ["go"]
        assert opened.verify().messages == 3

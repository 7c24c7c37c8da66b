"""A conversation that reads like a real one, with its tools' outputs: a team brings ferry tickets to the islands.

`sample.jsonl.gz` has its messages, one per line, and `facts.json` the facts in it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.resources import files
from itertools import count as count_from
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from lossless import formats
from lossless.model.js_json import stringify_js
from lossless.model.times import state_time

AgentMessage: TypeAlias = dict[str, Any]
SAMPLE_COUNT = 400
#: From this message on the sample is everyday work without facts, which comes again when a longer one is asked for.
_EVERYDAY = 402


def read_data(name: str) -> str:
    """A text file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


class Fact(NamedTuple):
    """Something that was said: a question for it, words that answer it, and the message that has them."""

    question: str
    answer: str
    #: Its place in the sample, from 1.
    seq: int


#: The facts of the sample, in the order they were said; all of them within its first SAMPLE_COUNT messages.
PLANTED = tuple(Fact(*fact) for fact in json.loads(read_data("facts.json")))


def sample_conversation(count: int = SAMPLE_COUNT) -> Iterator[AgentMessage]:
    """The first `count` messages of the sample: a shorter one is always the beginning of a longer one."""
    return islice(_all_messages(), count)


def _all_messages() -> Iterator[AgentMessage]:
    lines = gzip.decompress(files(__package__).joinpath("sample.jsonl.gz").read_bytes()).decode().split("\n")[:-1]
    yield from map(json.loads, lines)
    everyday = lines[_EVERYDAY:]
    span = json.loads(lines[-1])["timestamp"] - json.loads(lines[_EVERYDAY - 1])["timestamp"]
    for again in count_from(1):
        for line in everyday:
            message = json.loads(line.replace('"call_', f'"call_{again}_'))
            yield message | {"timestamp": message["timestamp"] + again * span}


def openai_chat(messages: Iterable[AgentMessage]) -> Iterator[dict[str, object]]:
    """Agent messages in the shape of OpenAI's chat API, which has no place for thinking: it is left out."""
    for message in messages:
        yield from formats.encode([formats.decode(message, "openclaw")], "openai-chat")


def session_jsonl(
    messages: Iterable[AgentMessage],
    session_id: str = "11111111-2222-4333-8444-555555555555",
    cwd: str = "/home/user/ws",
) -> str:
    """An OpenClaw transcript (version 3) of at least one message, each entry naming the one before."""
    lines: list[str] = []
    parent: str | None = None
    for number, message in enumerate(messages):
        at = state_time(datetime.fromtimestamp(message["timestamp"] / 1000, UTC))
        if not lines:
            lines.append(stringify_js({"type": "session", "version": 3, "id": session_id, "timestamp": at, "cwd": cwd}))
        id = f"{0x10000000 + number:x}"
        entry = {"type": "message", "id": id, "parentId": parent, "timestamp": at, "message": message}
        lines.append(stringify_js(entry))
        parent = id
    if not lines:
        raise ValueError("a transcript needs at least one message")
    return "\n".join(lines) + "\n"

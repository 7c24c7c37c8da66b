"""A conversation that reads like a real one, with its tools' outputs: a team brings ferry tickets to the islands.

`sample.jsonl.gz` has its messages, one per line, and `facts.json` the facts in it.
"""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from itertools import count as count_from
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lossless import formats
from lossless.testing.conversations import read_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.testing.conversations import AgentMessage

SAMPLE_COUNT = 400
#: From this message on the sample is everyday work without facts, which comes again when a longer one is asked for.
_EVERYDAY = 402


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

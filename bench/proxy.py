"""What the proxy adds to the first byte of a streamed reply. `python -m bench.proxy`

A provider without a model and `lcm proxy` run as processes of their own. The same growing conversation is sent straight
and through the proxy, in turns; wall milliseconds until the first event, and the difference of the medians. With the
history `append` only the newest message is sent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from bench.conversations import turns
from bench.measure import table, write
from lossless.testing.provider import Provider, Say

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLY = "The quick brown fox jumps over the lazy dog."
TOKEN = "bench-token-0123456789"
#: How many messages, into how large a window, when the model gets the tools, and what requests bring. That with 128,000
#: tokens is folded while it is measured, since it grows over the threshold; those with 32,000 do not fit.
CASES = (
    *((count, 200_000, tools, "window") for count in (2, 50, 400) for tools in ("auto", "always")),
    (400, 128_000, "auto", "window"),
    (400, 32_000, "auto", "window"),
    (50, 200_000, "auto", "append"),
    (400, 32_000, "auto", "append"),
)
_HEADERS = {"x-lossless-token": TOKEN, "authorization": "Bearer none"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if given.provider:
        serve_provider()
        return
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder, provider() as upstream:
        for count, window, tools, history in CASES:
            archive = Path(folder) / f"{count}-{window}-{tools}-{history}.db"
            with proxy(archive, upstream, tools, window) as url:
                case = {"messages": f"{count} to {count + 2 * given.rounds}", "window": window, "tools": tools}
                case["history"] = history
                rows.append(case | measured(upstream, url, count, given.rounds, history))
    table(rows, "First byte of a streamed reply, wall ms (medians)")
    write("proxy", rows, {"input": "bench.conversations.turns, 1.8 kB a turn", "seed": 0, "rounds": given.rounds})


def measured(upstream: str, url: str, count: int, rounds: int, history: str) -> dict[str, float]:
    """Medians of both ways, for a conversation that grows by a turn each round."""
    window: list[Any] = []
    for n, (user, assistant) in enumerate(turns(count // 2 + rounds + 3)):
        window += [user, assistant if n < count // 2 - 1 else {"role": "assistant", "content": REPLY}]
    straight, through = [], []
    with httpx2.Client(timeout=30) as client:
        for n in range(rounds + 3):
            said = window[: count + 2 * n - 1]
            said = said[-1:] if history == "append" and n else said
            straight.append(first_byte(client, f"{upstream}/v1/chat/completions", said, history))
            through.append(first_byte(client, f"{url}/v1/chat/completions", said, history))
    a, b = statistics.median(straight[3:]), statistics.median(through[3:])
    best = min(through[3:]) - min(straight[3:])
    return {"straight": a, "through": b, "added": b - a, "added at best": best}


def first_byte(client: httpx2.Client, url: str, messages: list[Any], history: str) -> float:
    """Milliseconds from sending a request to the first event of its reply."""
    body = json.dumps({"model": "gpt-4o", "messages": messages, "stream": True}).encode()
    start = time.perf_counter()
    headers = _HEADERS | {"x-lossless-session": "bench", "x-lossless-history": history}
    with client.stream("POST", url, content=body, headers=headers) as answer:
        assert answer.status_code == 200
        chunks = answer.iter_raw()
        next(chunks)
        took = time.perf_counter() - start
        for _ in chunks:
            pass
    return took * 1000


@contextmanager
def provider() -> Iterator[str]:
    """The provider's address."""
    with _process([sys.executable, "-m", "bench.proxy", "--provider"]) as line:
        yield line.strip()


@contextmanager
def proxy(archive: Path, upstream: str, tools: str, window: int) -> Iterator[str]:
    """The proxy's address."""
    command = [sys.executable, "-m", "lossless.cli.main", "--db", str(archive), "--format", "json", "proxy"]
    options = ["--port", "0", "--openai-url", f"{upstream}/v1", "--tools", tools, "--window", str(window)]
    with _process([*command, *options]) as line:
        yield json.loads(line)["data"]["url"]


@contextmanager
def _process(command: list[str]) -> Iterator[str]:
    """The first line that a process prints; it ends with the block."""
    env = os.environ | {"LCM_PROXY_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline()
        finally:
            running.terminate()
            running.wait(20)


def serve_provider() -> None:
    """Until ended, every reply is the same few words."""
    with Provider(lambda _: Say(REPLY)) as serving:
        print(serving.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()

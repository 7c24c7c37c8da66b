"""The first minute: `lcm init --yes` on a made-up home with 2,000 transcripts. `python -m bench.first_run`

CPU seconds of the process until it prints the first command that finds something, and until it ends; then the same
again, when all is imported already.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import table, write
from lossless.testing import sample_conversation, session_jsonl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.testing import AgentMessage

#: Seconds of CPU until the first useful answer.
AIM = 10.0
#: The newest transcript ends here.
END = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
#: How many messages transcripts have: most are short, a few are long.
LENGTHS = (6, 14, 8, 30, 12, 60, 10, 22, 16, 240)
#: The share of each program, of ten.
SHARES = {"claude-code": 5, "codex": 3, "openclaw": 1, "pi": 1}


def write_home(home: Path, count: int) -> int:
    """Write `count` made-up transcripts where programs keep them; returns their bytes. The last is the newest."""
    said = list(sample_conversation())
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    total = 0
    for number, kind in zip(range(count), cycle(kinds), strict=False):
        start = number * 37 % (len(said) - 240)
        length = LENGTHS[number * 7 % len(LENGTHS)]
        at = END - timedelta(minutes=17 * (count - 1 - number))
        file, text = _transcript(kind, number, said[start : start + length], at)
        place = home / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        os.utime(place, (at.timestamp(), at.timestamp()))
        total += place.stat().st_size
    return total


def _transcript(kind: str, number: int, said: Sequence[AgentMessage], at: datetime) -> tuple[str, str]:
    """The path below the home and the text of one transcript."""
    id_ = f"{number:08x}-2222-4333-8444-555555555555"
    if kind in ("openclaw", "pi"):
        folder = ".openclaw/agents/main/sessions" if kind == "openclaw" else ".pi/agent/sessions/--home-me-ferry--"
        return f"{folder}/{id_}.jsonl", session_jsonl(said, id_, "/home/me/ferry")
    times = (f"{at - timedelta(seconds=5 * (len(said) - n)):%Y-%m-%dT%H:%M:%S.000Z}" for n in range(len(said)))
    if kind == "claude-code":
        lines = _claude_code(id_, zip(said, times, strict=True))
        return f".claude/projects/-home-me-ferry-{number % 20}/{id_}.jsonl", _jsonl(lines)
    path = f".codex/sessions/{at:%Y/%m/%d}/rollout-{at:%Y-%m-%dT%H-%M-%S}-{id_}.jsonl"
    return path, _jsonl(_codex(id_, zip(said, times, strict=True)))


def _jsonl(lines: Iterator[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def _text_of(message: AgentMessage) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or json.dumps(block.get("arguments", "")) for block in content)


def _claude_code(id_: str, said: Iterator[tuple[AgentMessage, str]]) -> Iterator[dict[str, Any]]:
    parent = None
    for number, (message, at) in enumerate(said):
        role = "assistant" if message["role"] == "assistant" else "user"
        uuid = f"{id_[:8]}-{number:04x}-4333-8444-555555555555"
        common = {"sessionId": id_, "cwd": "/home/me/ferry", "version": "2.1.0", "timestamp": at}
        content: Any = [{"type": "text", "text": _text_of(message)}] if role == "assistant" else _text_of(message)
        yield common | {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "isSidechain": False,
            "message": {"role": role, "content": content},
        }
        parent = uuid


def _codex(id_: str, said: Iterator[tuple[AgentMessage, str]]) -> Iterator[dict[str, Any]]:
    for number, (message, at) in enumerate(said):
        if not number:
            meta = {"id": id_, "timestamp": at, "cwd": "/home/me/ferry", "cli_version": "0.60.0"}
            yield {"timestamp": at, "type": "session_meta", "payload": meta}
        role = "assistant" if message["role"] == "assistant" else "user"
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": _text_of(message)}]
        item = {"type": "message", "role": role, "content": content}
        yield {"timestamp": at, "type": "response_item", "payload": item}


def measure(home: Path) -> tuple[float, float, str]:
    """CPU seconds until the first command that finds something is printed, and until the end; and that command."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_", "C"))}
    command = [sys.executable, "-m", "lossless.cli.main", "init", "--yes", "--connect", "none"]
    first, example = 0.0, ""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env | {"HOME": str(home)}, cwd=home, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if not example and " recall " in line:
                first, example = cpu_of(run.pid), line[line.index("lcm ") :].strip()
    assert run.returncode == 0, run.returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return first or total, total, example


def cpu_of(pid: int) -> float:
    """The CPU seconds that a running process has used; on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Make the home, measure twice, write the figures down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory(prefix="lossless-home-") as folder:
        home = Path(folder)
        size = write_home(home, count)
        rows: list[dict[str, object]] = []
        for run in ("first", "again"):
            answer, total, example = measure(home)
            rows.append({"run": run, "to the first answer": round(answer, 2), "to the end": round(total, 2)})
            print(f"{run}: {example}")
    table(rows)
    verdict = float(str(rows[0]["to the first answer"])) <= AIM
    print(f"{count} files, {size / 1e6:.0f} MB; the aim is {AIM:.0f} s of CPU: {'met' if verdict else 'MISSED'}")
    meta = {"input": f"{count} made-up transcripts, {size} bytes", "seed": 0, "aim": AIM, "met": verdict}
    write("first_run", rows, meta)
    if not verdict:
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What leaves the process as files: transcripts that are shortened, pictures that come back, and the wheel."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import lossless
from tests.hosts.openclaw.plugin_end import KEY, Answer, PluginEnd

ROOT = Path(__file__).parents[3]
BIG = "\n".join(f"line {n} of the log" for n in range(900))
SMALL: dict[str, Any] = {"freshTailCount": 2, "leafChunkTokens": 600, "largeFileThresholdTokens": 1000}


def turn(number: int) -> list[dict[str, Any]]:
    """A turn; the first one has a long answer of a tool."""
    asked = {"role": "user", "content": [{"type": "text", "text": f"question {number} " + "word " * 60}]}
    told = {"role": "assistant", "content": [{"type": "text", "text": f"answer {number} " + "word " * 60}]}
    if number:
        return [asked, told]
    call = {"type": "toolCall", "id": "call_1", "name": "exec", "arguments": {"command": "cat log"}}
    answer = {
        "role": "toolResult",
        "toolCallId": "call_1",
        "toolName": "exec",
        "content": [{"type": "text", "text": BIG}],
    }
    return [asked, {"role": "assistant", "content": [call]}, answer, told]


class HostFile:
    """A transcript in a file, whose entries the host replaces when it is asked to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []

    def write(self, message: dict[str, Any]) -> None:
        number = len(self.records)
        parent = f"{number - 1:08x}" if number else None
        record = {"type": "message", "id": f"{number:08x}", "parentId": parent, "message": message}
        self.records.append(record | {"timestamp": f"2026-01-01T00:{number:02}:00Z"})
        self.save()

    def rewrite(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = {one["entryId"]: one["message"] for one in params["replacements"]}
        for record in self.records:
            record["message"] = wanted.get(record["id"], record["message"])
        self.save()
        return {"changed": bool(wanted), "rewrittenEntries": len(wanted), "bytesFreed": 1}

    def save(self) -> None:
        head = {"type": "session", "version": 3, "id": "run-1", "timestamp": "2026-01-01T00:00:00Z"}
        self.path.write_text("".join(json.dumps(line) + "\n" for line in [head, *self.records]))


def test_old_answers_of_tools_leave_the_transcript_and_stay_in_the_archive(tmp_path: Path) -> None:
    host = HostFile(tmp_path / "run-1.jsonl")
    session = {"sessionKey": KEY, "sessionId": "run-1", "sessionFile": str(host.path)}
    rest = {**session, "tokenBudget": 100_000, "canRewrite": True}
    answers: dict[str, Answer] = {"transcript.rewrite": host.rewrite}
    with PluginEnd(tmp_path / "lcm.db", answers=answers, **SMALL, transcriptGcEnabled=True) as plugin:
        for number in range(6):
            for message in turn(number):
                host.write(message)
                plugin.call("afterTurn", **session, messages=[message], key=f"{len(host.records)}", tokenBudget=100_000)
        assert plugin.call("compact", **session, tokenBudget=100_000, force=True, manual=True)["compacted"]
        before = host.path.stat().st_size
        assert plugin.call("maintain", **rest)["rewrittenEntries"] == 0, "the host did not allow it"
        done = plugin.call("maintain", **rest, allowDeferredCompactionExecution=True)
        assert (done["changed"], done["rewrittenEntries"]) == (True, 1)
        assert host.path.stat().st_size < before - 10_000
        again = plugin.call("maintain", **rest, allowDeferredCompactionExecution=True)
        assert (again["changed"], again["reason"]) == (False, "nothing to replace")
        assert plugin.call("bootstrap", **session)["importedMessages"] == 0
        assert plugin.call("control", sessionKey=KEY)["messageCount"] == 14
        found = plugin.call(
            "tool.call", sessionKey=KEY, name="lcm_grep", args={"pattern": "line 898", "scope": "files"}
        )
        assert "line 898 of the log" in found["content"][0]["text"]
    with lossless.open(tmp_path / "lcm.db", lossless.Settings()) as engine:
        assert engine.verify().ok


def test_a_transcript_that_is_not_there_is_not_shortened_and_no_other_is(tmp_path: Path) -> None:
    host = HostFile(tmp_path / "run-1.jsonl")
    session = {"sessionKey": KEY, "sessionId": "run-1", "sessionFile": str(host.path)}
    gone = session | {"sessionFile": str(tmp_path / "run-2.jsonl")}
    with PluginEnd(tmp_path / "lcm.db", **SMALL) as plugin:
        for number in range(6):
            for message in turn(number):
                host.write(message)
                plugin.call("afterTurn", **session, messages=[message], key=f"{len(host.records)}", tokenBudget=100_000)
        before = host.path.read_bytes()
        assert plugin.call("command", **gone, args="rotate")["text"].startswith("Not rotated: ")
        assert plugin.call("control", **gone, action="rotate")["lastRotatedAt"] is None
        assert host.path.read_bytes() == before
        assert plugin.call("control", **session, action="rotate")["lastRotatedAt"]


def test_a_picture_goes_through_the_pipes_and_comes_back_whole(tmp_path: Path) -> None:
    data = base64.b64encode(os.urandom(60_000)).decode()
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    asked = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, picture], "timestamp": 7}
    told = {
        "role": "assistant",
        "content": [{"type": "text", "text": "noise"}],
        "responseId": "r1",
        "__openclaw": {"x": 1},
    }
    with PluginEnd(tmp_path / "lcm.db", payloadsInFiles=False) as plugin:
        done = plugin.call("commitTurn", sessionKey=KEY, advancementKey="k", messages=[asked, told])
        assert done == {"status": "committed"}
        made = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=100_000, prompt="next")["messages"]
    assert made == [asked, told]


def test_the_wheel_brings_the_plugin_along(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    command = [
        sys.executable,
        "-m",
        "lossless.cli.main",
        "install",
        "openclaw",
        "--dry-run",
        "--state-dir",
        str(tmp_path),
    ]
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True, timeout=60)
    folder = tmp_path / "site" / "lossless" / "hosts" / "openclaw" / "plugin"
    assert f"plugins.load.paths holds {folder}" in json.loads(done.stdout)["data"]["changes"]
    assert {file.name for file in folder.glob("lib/*.js")} == {
        file.name for file in ROOT.glob("bridges/openclaw/lib/*.js")
    }

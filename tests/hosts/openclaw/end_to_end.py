"""The plugin in real gateways: `make test-openclaw`, or with QUICK=1 one version and a dozen turns.

The plugin's own tests first; with QUICK=1 only where `make test` finds no Node for them. Then turns with tool calls,
folding, a killed Python, an early detail that comes back, commands, sub-agents, /reset, a clean end; afterwards the
archive is proven. Only installing needs a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.engine import open_engine
from lossless.settings import Settings
from tests.hosts.openclaw.fake_model import ANSWER, FakeModel, text_of
from tests.hosts.openclaw.gateway import KEY, Gateway, install_node, with_node
from tests.hosts.openclaw.test_service_plugin import node

if TYPE_CHECKING:
    from collections.abc import Callable

VERSIONS = ("2026.9.6", "2026.7.1")
SECRET = "ZEBRA-4711"
_SUMMARY = re.compile(r'<summary id="(sum_[0-9a-f]+)"')


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def until(what: str, condition: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about"
        time.sleep(0.2)


def words(number: int) -> str:
    return f"turn {number}: " + f"the weather in town {number} is item-{number}, " * 12


def talk(gateway: Gateway, first: int, last: int) -> None:
    """Turns first to last; every third one uses a tool."""
    for number in range(first, last + 1):
        if number % 3:
            assert "Canned reply" in gateway.ask(words(number)), number
        else:
            call = json.dumps({"question": f"turn number {number}"})
            assert "Tool said" in gateway.ask(f"{words(number)} CALL lcm_recall {call}"), number


def kill_child(gateway: Gateway, *, is_idle: bool) -> None:
    """Python dies; the next turn does not notice. One that dies while it folds leaves its lease for a while."""
    if is_idle:
        until("the end of folding", lambda: gateway.lcm("status")["status"]["maintenance"]["running"] == 0)
    found = gateway.children()
    assert len(found) == 1, f"one Python should be there, not {found}"
    os.kill(found[0], signal.SIGKILL)


def run(version: str, state: Path, turns: int, *, quick: bool) -> None:
    started = time.monotonic()
    with FakeModel() as model, Gateway(version, state, model.url) as gateway:
        say(f"{version}: the gateway runs after {time.monotonic() - started:.0f} s")
        gateway.ask(f"turn 0: please keep in mind that the launch code is {SECRET}.")
        assert "Tool said" in gateway.ask('turn w: much to read. CALL exec {"command":"seq 1 3000"}')
        talk(gateway, 1, turns // 2)
        kill_child(gateway, is_idle=True)
        talk(gateway, turns // 2 + 1, turns)
        until("a summary", lambda: gateway.lcm("status")["status"]["summaries"]["count"] > 0)
        if not quick:
            kill_child(gateway, is_idle=False)
        found = gateway.ask('turn x: CALL lcm_grep {"pattern":"code.is.[A-Z]+-[0-9]+","mode":"regex"}')
        assert SECRET in found, found
        say(f"{version}: {turns + 3} turns, {len(model.others)} summaries asked for, the early detail is back")
        check_prompts(model)
        told = gateway.call("sessions.compact", key=KEY)
        assert told["ok"], told
        check_collected(gateway)
        check_commands(gateway)
        if not quick:
            check_answer(gateway)
        check_reset(gateway, turns + 5)
        gateway.stop()
        assert gateway.children() == [], "Python outlived its gateway"
        if not quick:
            one_shot(gateway)
        check_archive(gateway, turns)
    say(f"{version}: all is well after {time.monotonic() - started:.0f} s")


def check_prompts(model: FakeModel) -> None:
    """What the model saw: our policy and the memory plugin's once, no summary twice, each result after its call."""
    for body in model.chats:
        messages = body["messages"]
        whole = "\n".join(map(text_of, messages))
        assert whole.count("## Compacted history (lossless)") == 1
        assert whole.count("## Memory Recall") == 1
        ids = _SUMMARY.findall("\n".join(text_of(message) for message in messages if message["role"] == "user"))
        assert len(ids) == len(set(ids)), ids
        open_calls: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
                continue
            assert not open_calls, "a call without its result"
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
    has_summary = [any(_SUMMARY.search(text_of(message)) for message in body["messages"]) for body in model.chats]
    assert True in has_summary, "no summary was shown"
    assert all(has_summary[has_summary.index(True) :]), f"a summary was shown, and later none: {has_summary}"


def check_collected(gateway: Gateway) -> None:
    """What the tool answered at length is whole in the archive; a transcript that is a file has a short reference."""
    gateway.ask("turn u: what was folded leaves the transcript after this turn")
    if gateway.version == "2026.7.1":
        until("the short form", lambda: all(len(text) < 2000 and "file_" in text for text in answers(gateway, "exec")))
    found = gateway.ask('turn v: CALL lcm_grep {"pattern":"2998","scope":"files"}')
    assert "2998" in found, found


def answers(gateway: Gateway, tool: str) -> list[str]:
    """What a tool answered, as the host's transcript has it."""
    history = gateway.call("chat.history", sessionKey=KEY, limit=1000)["messages"]
    found = [text_of(one) for one in history if one["role"] == "toolResult" and one["toolName"] == tool]
    assert found, [(one["role"], one.get("toolName")) for one in history]
    return found


def check_commands(gateway: Gateway) -> None:
    gateway.call("chat.send", sessionKey=KEY, message="/lossless status", idempotencyKey="status-1")
    until("the answer to /lossless", lambda: "on OpenClaw" in json.dumps(gateway.call("chat.history", sessionKey=KEY)))
    control = {"pluginId": "lossless", "actionId": "lcm-control", "sessionKey": KEY, "payload": {"action": "status"}}
    told = gateway.call("plugins.sessionAction", **control)
    assert told["result"]["active"] is True, told


def check_answer(gateway: Gateway) -> None:
    call = json.dumps({"prompt": "What is the launch code?", "query": "launch code", "timeoutMs": 60_000})
    found = gateway.ask(f"turn y: CALL lcm_expand_query {call}")
    assert ANSWER in found, found


def check_reset(gateway: Gateway, said: int) -> None:
    gateway.call("sessions.reset", key=KEY, reason="reset")
    gateway.ask("turn r: after the reset")
    found = gateway.lcm("conversations", "list")["items"]
    rows = {row["active"]: row["messageCount"] for row in found if row["sessionKey"] == KEY}
    assert rows[True] == 2, found
    assert rows[False] >= 2 * said, found
    again = gateway.ask('turn z: CALL lcm_grep {"pattern":"code.is.[A-Z]+-[0-9]+","mode":"regex"}')
    assert SECRET in again, again


def one_shot(gateway: Gateway) -> None:
    """A run of its own on the same archive, which ends by itself."""
    gateway.run("agent", "--local", "--agent", "main", "--json", "-m", "turn o: one shot", seconds=240)
    until("the end of Python", lambda: not gateway.children())


def check_archive(gateway: Gateway, turns: int) -> None:
    """Every turn is there once, and everything is reachable."""
    assert gateway.lcm("verify")["ok"] is True
    with open_engine(gateway.database, Settings(), background=False) as engine:
        stored = []
        for conversation in engine.archive.conversations.family(_session()):
            after = 0
            while page := engine.archive.messages.in_order(conversation.id, after):
                stored += [row.message.content for row in page if row.message.role == "user"]
                after = page[-1].seq
    for number in range(turns + 1):
        count = sum(text.startswith(f"turn {number}:") for text in stored)
        assert count == 1, f"turn {number} is stored {count} times"


def _session() -> Any:
    from lossless.model.conversations import Session

    return Session(key=KEY)


def run_plugin_tests() -> None:
    """The plugin's own tests, with the Node that it runs in."""
    programs = install_node()
    files = sorted(map(str, (Path(__file__).parents[3] / "bridges" / "openclaw" / "test").glob("*.test.js")))
    env = with_node(programs) | {"LCM_PYTHON": sys.executable}
    started = time.monotonic()
    done = subprocess.run([str(programs / "node"), "--test", *files], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    say(f"The plugin's own tests pass after {time.monotonic() - started:.0f} s")


def main() -> int:
    """Run all versions, or with QUICK=1 the newest one, shortly."""
    quick = bool(os.environ.get("QUICK"))
    if not quick or node() is None:  # else `make test` has run them
        run_plugin_tests()
    folder = Path(tempfile.mkdtemp(prefix="lossless-openclaw-"))
    say(f"States and logs are below {folder}; they are removed when all is well")
    for version in VERSIONS[:1] if quick else VERSIONS:
        run(version, folder / version, 12 if quick else 40, quick=quick)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

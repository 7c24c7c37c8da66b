"""Turns that are handed over and a transcript that is read page by page are one history, whatever comes first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.engine import Engine
from lossless.errors import LosslessError
from lossless.hosts.openclaw.bridge import Bridge
from lossless.hosts.openclaw.context_engine import after_turn, before_reset, bootstrap, commit_turn
from lossless.hosts.openclaw.rpc import PluginCall
from lossless.model.conversations import Session
from lossless.settings import Settings
from lossless.store.archive import Archive

SESSION = {"sessionKey": "agent:main:main", "sessionId": "run-1"}
TARGET = {**SESSION, "sessionTarget": {"agentId": "main", **SESSION}, "sessionFile": "agent:main:main"}


@dataclass
class HostTranscript:
    """A host's transcript behind its reader; it answers as the plugin does."""

    page: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    generation: int = 0
    is_there: bool = True

    def ask(self, method: str, params: dict[str, Any], _seconds: float = 0) -> dict[str, Any]:
        assert method == "transcript.read"
        if not self.is_there:
            return {"kind": "unavailable"}
        start, cursor = 0, params["cursor"]
        if cursor is not None:
            generation, start = map(int, cursor.split(":"))
            if generation != self.generation:
                return {"kind": "reset"}
        end = min(len(self.entries), start + self.page)
        mark = f"{self.generation}:{end}"
        return {"kind": "page", "cursor": mark, "hasMore": end < len(self.entries), "entries": self.entries[start:end]}

    def write(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            number = len(self.entries)
            parent = f"e{number - 1}" if number else None
            self.entries.append({"entryId": f"e{number}", "parentId": parent, "seq": number + 1, "message": message})


def turn(number: int, repeat: bool) -> list[dict[str, Any]]:
    text = "ok" if repeat else f"question {number}"
    return [
        {"role": "user", "content": text, "timestamp": 1000 * number, "idempotencyKey": f"t{number}:user"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": f"answer {number}"}],
            "timestamp": 1000 * number + 1,
        },
    ]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["turn", "typed", "unread", "again", "read", "moved"]), st.booleans()), max_size=14
    ),
    st.integers(1, 5),
)
def test_everything_is_stored_once_and_in_order(steps: list[tuple[str, bool]], page: int) -> None:
    host, last = HostTranscript(page), None
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        bridge = Bridge(engine, host)  # type: ignore[arg-type]
        for number, (step, repeat) in enumerate(steps):
            messages = turn(number, repeat)
            if step in ("turn", "unread"):  # a turn begins with reading, unless the session is new or Python was away
                if step == "turn":
                    bootstrap(bridge, PluginCall(1, "bootstrap", TARGET))
                host.write(messages)
                last = committed(host, number, messages)
                assert commit_turn(bridge, last) == {"status": "committed"}
            elif step == "typed":  # a command and its answer are in the transcript alone
                host.write(messages)
            elif step == "again" and last is not None:
                assert commit_turn(bridge, last) == {"status": "duplicate"}
            elif step == "moved":
                host.generation += 1
            bootstrap(bridge, PluginCall(3, "bootstrap", TARGET))
        assert stored(engine) == [entry["message"]["timestamp"] for entry in host.entries]


def committed(host: HostTranscript, number: int, messages: list[dict[str, Any]]) -> PluginCall:
    """The turn that was just written, as the host hands it over."""
    first, last = (host.entries[at]["entryId"] for at in (-len(messages), -1))
    params = {**TARGET, "advancementKey": f"k{number}", "messages": messages}
    return PluginCall(2, "commitTurn", {**params, "admission": {"entryId": first}, "terminal": {"entryId": last}})


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=12))
def test_a_transcript_that_comes_and_goes_costs_no_turn_and_doubles_none(steps: list[tuple[bool, bool, bool]]) -> None:
    host = HostTranscript(4)
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        bridge = Bridge(engine, host)  # type: ignore[arg-type]
        for number, (repeat, is_there, reads) in enumerate(steps):
            host.is_there = is_there
            messages = turn(number, repeat)
            host.write(messages)
            assert commit_turn(bridge, committed(host, number, messages)) == {"status": "committed"}
            assert set(stored(engine)) >= {message["timestamp"] for message in messages}
            if reads:
                bootstrap(bridge, PluginCall(3, "bootstrap", TARGET))
        host.is_there = True
        bootstrap(bridge, PluginCall(4, "bootstrap", TARGET))
        assert sorted(map(str, stored(engine))) == sorted(str(entry["message"]["timestamp"]) for entry in host.entries)


def stored(engine: Engine) -> list[object]:
    found = engine.archive.conversations.find(Session(key=SESSION["sessionKey"]))
    if found is None:
        return []
    return [row.message.original["timestamp"] for row in engine.archive.messages.in_order(found.id)]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8))
def test_a_file_and_the_parts_of_a_turn_are_one_history(steps: list[tuple[bool, bool]]) -> None:
    """Older hosts write each message to their file before they hand it over, but for the first one of a session."""
    with TemporaryDirectory() as folder, Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        file, bridge = HostFile(Path(folder) / "run-1.jsonl"), Bridge(engine, HostTranscript(1))  # type: ignore[arg-type]
        session = {**SESSION, "sessionFile": str(file.path)}
        for number, (is_typed, repeat) in enumerate(steps):
            bootstrap(bridge, PluginCall(1, "bootstrap", session))
            for message in turn(number, repeat):
                file.write(message)
                if not is_typed:
                    key = str(message["timestamp"])
                    after_turn(bridge, PluginCall(2, "afterTurn", {**session, "messages": [message], "key": key}))
        bootstrap(bridge, PluginCall(3, "bootstrap", session))
        assert stored(engine) == [record["message"]["timestamp"] for record in file.records]


WHOLE = "\n".join(f'{{"ticket": {number}, "state": "open"}}' for number in range(400))


@pytest.mark.parametrize("id_", ["call_000015000", "call_rjI2nYwq0bLx8vKp7sTd4eFg"])
@pytest.mark.parametrize("whole_first", [True, False])
@pytest.mark.parametrize(
    "mark",
    [
        "[... 14774 more characters truncated; rerun with narrower args if needed]",
        "\n\n[... 14774 more characters truncated; rerun with narrower args if needed]",
        "[... 14774 chars truncated; narrow args]",
        "[... 14774 chars truncated; full output at /home/me/.openclaw/tool-results/exec-1.txt]",
    ],
)
def test_a_result_that_the_host_has_cut_is_a_version_of_the_whole_one(mark: str, id_: str, whole_first: bool) -> None:
    def result(text: str) -> dict[str, Any]:
        block = {"type": "text", "text": text}
        return {"role": "toolResult", "toolCallId": id_, "toolName": "exec", "content": [block], "timestamp": 3}

    asked = turn(0, repeat=False)[:1]
    called = {"type": "toolCall", "id": id_, "name": "exec", "arguments": {"command": "cat tickets"}}
    call = {"role": "assistant", "content": [called], "timestamp": 2}
    cut, whole = result(WHOLE[: WHOLE.index("\n", 4_000)] + mark), result(WHOLE)
    written, handed = ([*asked, call, one] for one in ((whole, cut) if whole_first else (cut, whole)))
    with TemporaryDirectory() as folder, Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        file, bridge = HostFile(Path(folder) / "run-1.jsonl"), Bridge(engine, HostTranscript(1))  # type: ignore[arg-type]
        session = {**SESSION, "sessionFile": str(file.path)}
        for message in written:
            file.write(message)
        after_turn(bridge, PluginCall(2, "afterTurn", {**session, "messages": handed, "key": "1"}))
        for _ in range(2):
            bootstrap(bridge, PluginCall(3, "bootstrap", session))
            found = engine.archive.conversations.find(Session(key=SESSION["sessionKey"]))
            assert found is not None
            rows = list(engine.archive.messages.in_order(found.id))
            assert [row.message.role for row in rows] == ["user", "assistant", "tool"]
            assert rows[-1].message.content == WHOLE
            assert len(engine.archive.versions.digests([rows[-1].id])[rows[-1].id]) == 1
        assert engine.verify().ok


@dataclass
class HostFile:
    """A transcript in a file, which is there from the first answer on."""

    path: Path
    records: list[dict[str, Any]] = field(default_factory=list)

    def write(self, message: dict[str, Any]) -> None:
        number = len(self.records)
        parent = f"{number - 1:08x}" if number else None
        written = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": "2026-01-01T00:00:00Z"}
        self.records.append({**written, "message": message})
        if number:
            head = {"type": "session", "version": 3, "id": "run-1", "timestamp": "2026-01-01T00:00:00Z"}
            self.path.write_text("".join(json.dumps(line) + "\n" for line in [head, *self.records]))


def test_after_a_reset_only_what_is_new_is_read() -> None:
    host = HostTranscript(3)
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        bridge = Bridge(engine, host)  # type: ignore[arg-type]
        for number in range(4):
            host.write(turn(number, False))
        bootstrap(bridge, PluginCall(1, "bootstrap", TARGET))
        host.write(turn(4, False))
        before_reset(bridge, PluginCall(2, "hook.before_reset", {**TARGET, "reason": "reset"}))
        host.write(turn(5, False))
        bootstrap(bridge, PluginCall(3, "bootstrap", TARGET))
        assert stored(engine) == [5000, 5001]
        family = engine.archive.conversations.family(Session(key=SESSION["sessionKey"]))
        assert [len(engine.archive.messages.in_order(one.id)) for one in family] == [2, 10]


def test_a_transcript_that_cannot_be_read_does_not_keep_a_reset_from_happening() -> None:
    class Broken:
        def ask(self, *_: object) -> None:
            raise LosslessError("gone")

    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        engine.append(Session(key=SESSION["sessionKey"]), [{"role": "user", "content": "a"}])
        bridge = Bridge(engine, Broken())  # type: ignore[arg-type]
        assert before_reset(bridge, PluginCall(1, "hook.before_reset", {**TARGET, "reason": "new"})) == {"done": True}

"""Files that change in place (OpenCode, Gemini CLI): every message once, its newest words on top, none lost."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.ingest.transcripts import BadLine, open_transcript
from lossless.ingest.transcripts.reading import detect_kind

if TYPE_CHECKING:
    from lossless.ingest.transcripts import Transcript

SESSION = "ses_1"
#: The clock of OpenCode, which notes when each row was written.
CLOCK = count(1)
AT = 1_767_355_200_000


# --- Gemini CLI ---


def prompt(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": "2026-01-02T12:00:00Z", "type": "user", "content": [{"text": text}], **more}


def answer(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": "2026-01-02T12:00:01Z", "type": "gemini", "content": text, **more}


def response(call: str, text: str) -> dict[str, Any]:
    return {"functionResponse": {"id": call, "name": "shell", "response": {"output": text}}}


CALL = {"id": "call-1", "name": "shell", "args": {"command": "ls"}}
CALLING = answer(
    "b", "Let me look.", model="gemini-2.5", tokens={"input": 3},
    thoughts=[{"subject": "Plan", "description": "Look."}],
    toolCalls=[CALL | {"result": [response("call-1", "a.txt")], "status": "success", "resultDisplay": "a.txt"}],
)  # fmt: skip


def gemini(folder: Path, *records: dict[str, Any], as_lines: bool = True, name: str = "session-1") -> Path:
    """A session of Gemini CLI in its place."""
    head = {"sessionId": "s1", "projectHash": "abc", "startTime": "2026-01-02T12:00:00Z", "kind": "main"}
    chats = folder / ".gemini" / "tmp" / "work" / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats.parent / ".project_root").write_text("/home/user/work")
    path = chats / (f"{name}.jsonl" if as_lines else f"{name}.json")
    lines = "".join(json.dumps(record) + "\n" for record in (head, *records))
    path.write_text(lines if as_lines else json.dumps(head | {"messages": records}, indent=2))
    return path


def said(found: Transcript) -> list[tuple[str | None, str, str]]:
    """Id, role and text of each message on the path."""
    listed: list[tuple[str | None, str, str]] = []
    for entry in found.path():
        if not isinstance(entry, BadLine) and entry.message is not None:
            message = lossless.formats.decode(dict(entry.message))  # type: ignore[arg-type]
            listed.append((entry.id, message.role, message.content))
    return listed


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_session_of_gemini_cli(tmp_path: Path, as_lines: bool) -> None:
    again = prompt("c", "", content=[response("call-1", "a.txt")])
    note = {"id": "d", "type": "info", "content": "Update available"}
    path = gemini(tmp_path, prompt("a", "What is here?"), CALLING, again, note, as_lines=as_lines)
    found = open_transcript(path)
    assert (found.kind, found.header.id, found.header.cwd) == ("gemini", "s1", "/home/user/work")
    assert found.lane_header().title == "What is here?"
    assert said(found) == [
        ("a", "user", "What is here?"), ("b", "assistant", "Let me look."), ("call-1", "tool", "a.txt"),
    ]  # fmt: skip
    assert found.counts() == {"user": 1, "gemini": 2, "info": 1}
    message = next(entry.message for entry in found.path() if entry.id == "b")  # type: ignore[union-attr]
    decoded = lossless.formats.decode(dict(message or {}))  # type: ignore[arg-type]
    assert [(call.id, call.name, call.input) for call in decoded.tool_calls] == [("call-1", "shell", {"command": "ls"})]


def test_lines_replace_and_take_back_messages(tmp_path: Path) -> None:
    records = [
        {"$set": {"messages": [prompt("a", "One")]}}, answer("b", "tw"), answer("b", "two"), prompt("c", "wrong"),
        answer("d", "way"), {"$rewindTo": "c"}, {"$set": {"summary": "About numbers"}}, prompt("e", "Three"),
    ]  # fmt: skip
    found = open_transcript(gemini(tmp_path, *records))
    assert [id for id, *_ in said(found)] == ["a", "b", "e"]
    assert [entry.id for entry in found.appended() if not isinstance(entry, BadLine)] == ["a", "b", "c", "d", "e"]
    assert (found.is_branched(), found.lane_header().title) == (True, "About numbers")


def test_what_was_taken_back_is_kept_outside_the_context(tmp_path: Path) -> None:
    """Before it was read for the first time, or after; and it returns when the user changes their mind."""
    with lossless.open(":memory:", background=False) as engine:
        records = [prompt("a", "One"), prompt("b", "Two"), {"$rewindTo": "b"}, prompt("c", "Three")]
        contexts = []
        for more in ([], [{"$rewindTo": "c"}], [prompt("b", "Two"), prompt("c", "Three")]):
            records += more
            (outcome,) = engine.transfer.import_transcripts("gemini", [gemini(tmp_path, *records)])
            items = engine.archive.context.items(outcome.conversation_id or 0)
            contexts.append([engine.archive.messages.get(item.message_id).message.content for item in items])  # type: ignore[union-attr]
        stored = engine.archive.messages.in_order(outcome.conversation_id or 0)
        assert sorted(item.message.content for item in stored) == ["One", "Three", "Two"]
    assert [set(shown) for shown in contexts] == [{"One", "Three"}, {"One"}, {"One", "Two", "Three"}]


def test_a_converted_answer_is_the_same_message(tmp_path: Path) -> None:
    """Newer versions write the thoughts and calls of an old file among its words."""
    parts = [{"text": "**Plan** Look.", "thought": True}, {"text": "Let me look."}, {"functionCall": CALL}]
    with lossless.open(":memory:", background=False) as engine:
        for content in ("Let me look.", parts):
            path = gemini(tmp_path, prompt("a", "What is here?"), CALLING | {"content": content}, as_lines=False)
            (outcome,) = engine.transfer.import_transcripts("gemini", [path])
        assert (outcome.status, outcome.messages) == ("up-to-date", 0)


# --- OpenCode ---


def message(id: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"id": id, "sessionID": SESSION, "role": role, "time": {"created": AT + int(id[4:])}, **more}


def text(id: str, words: str) -> dict[str, Any]:
    return {"id": id, "type": "text", "text": words}


def tool(id: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {
        "id": id, "type": "tool", "tool": "bash", "callID": f"call-{id}",
        "state": {"status": status, "input": {"command": "ls"}, **state},
    }  # fmt: skip


def opencode(
    folder: Path, form: str, messages: list[tuple[dict[str, Any], list[dict[str, Any]]]], **about: Any
) -> Path:
    """A session of OpenCode: exported, in folders, or in its database, which stays open as OpenCode's does."""
    info = {
        "id": SESSION, "projectID": "global", "directory": "/home/user/work", "title": "New session - 2026",
        "time": {"created": AT, "updated": AT}, **about,
    }  # fmt: skip
    if form == "export":
        path = folder / "export.json"
        listed = [{"info": about, "parts": parts} for about, parts in messages]
        path.write_text(json.dumps({"info": info, "messages": listed}, indent=2))
        return path
    if form == "folders":
        storage = folder / "storage"
        path = storage / "session" / "global" / f"{SESSION}.json"
        files = {path: info}
        for about, parts in messages:
            files[storage / "message" / SESSION / f"{about['id']}.json"] = about
            files |= {storage / "part" / about["id"] / f"{part['id']}.json": part for part in parts}
        for file, record in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record, indent=2))
        return path
    with_rows(folder / "opencode.db", info, messages)
    return folder / "opencode.db"


def with_rows(
    path: Path, info: dict[str, Any], messages: list[tuple[dict[str, Any], list[dict[str, Any]]]]
) -> apsw.Connection:
    """The tables of OpenCode's database that are read, with one session; the rows stay in the log beside the file."""
    database = apsw.Connection(str(path))
    database.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
    database.execute(
        """CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, project_id, parent_id, directory, title, revert,
        time_created, time_updated); CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY, session_id, time_created,
        time_updated, data); CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, message_id, session_id, time_created,
        time_updated, data)"""
    )
    revert = json.dumps(info["revert"]) if "revert" in info else None
    row = (info["id"], "global", info.get("parentID"), info["directory"], info["title"], revert, AT, AT + next(CLOCK))
    database.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for about, parts in messages:
        data = {key: value for key, value in about.items() if key not in ("id", "sessionID")}
        created = about["time"]["created"]
        write = "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)"
        database.execute(write, (about["id"], info["id"], created, AT + next(CLOCK), json.dumps(data)))
        for part in parts:
            data = {key: value for key, value in part.items() if key != "id"}
            cells = (part["id"], about["id"], info["id"], created, AT + next(CLOCK), json.dumps(data))
            database.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", cells)
    return database


FORMS = ["export", "folders", "database"]


@pytest.mark.parametrize("form", FORMS)
def test_a_session_of_opencode_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    steps = [
        {"id": "prt_20", "type": "step-start"}, {"id": "prt_21", "type": "reasoning", "text": "Look first."},
        text("prt_22", "Let me look."), tool("prt_23", output="a.txt\n"), tool("prt_24", "error", error="no such file"),
        {"id": "prt_25", "type": "step-finish", "cost": 0}, text("prt_26", "One file."), tool("prt_27", "running"),
    ]  # fmt: skip
    asked = (message("msg_1"), [text("prt_1", "What is here?")])
    answered = (message("msg_2", "assistant", providerID="local", modelID="m", finish="stop"), steps)
    path = opencode(tmp_path, form, [asked, answered, (message("msg_3", "assistant", error={"name": "Aborted"}), [])])
    found = open_transcript(path)
    assert (found.kind, found.header.id, found.header.cwd) == ("opencode", SESSION, "/home/user/work")
    assert found.lane_header().title == "What is here?"
    assert said(found) == [
        ("msg_1", "user", "What is here?"), ("msg_2", "assistant", "Let me look."), ("prt_23", "tool", "a.txt\n"),
        ("prt_24", "tool", "no such file"), ("prt_26", "assistant", "One file."),
    ]  # fmt: skip
    opaque = [e.record for e in found.path() if not isinstance(e, BadLine) and e.message is None]
    assert [record.get("type") for record in opaque] == ["step-start", "step-finish", None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("part", "left"), [(None, ["msg_1"]), ("prt_22", ["msg_1", "msg_2"])])
def test_what_was_reverted_is_off_the_path(tmp_path: Path, form: str, part: str | None, left: list[str]) -> None:
    revert = {"messageID": "msg_2"} | ({"partID": part} if part else {})
    second = [text("prt_20", "Let me look."), tool("prt_22", output="a"), text("prt_23", "An a.")]
    messages = [
        (message("msg_1"), [text("prt_1", "What is here?")]), (message("msg_2", "assistant"), second),
        (message("msg_3"), [text("prt_3", "And there?")]),
    ]  # fmt: skip
    found = open_transcript(opencode(tmp_path, form, messages, revert=revert))
    assert [id for id, *_ in said(found)] == left


def test_the_three_forms_are_one_conversation(tmp_path: Path) -> None:
    messages = [(message(f"msg_{n}"), [text(f"prt_{n}", f"Words {n}")]) for n in range(1, 4)]
    with lossless.open(":memory:", background=False) as engine:
        stored = []
        for length, form in zip((2, 3, 3), FORMS, strict=True):
            path = opencode(tmp_path, form, messages[:length])
            stored += [item.messages for item in engine.transfer.import_transcripts("opencode", [path])]
        assert stored == [2, 1, 0]


def test_a_database_in_use_is_read_and_never_locked(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    info = {"id": SESSION, "directory": "/home/user/work", "title": "T"}
    host = with_rows(path, info, [(message("msg_1"), [text("prt_1", "Words of the log")])])
    host.execute("BEGIN IMMEDIATE")
    host.execute("INSERT INTO message VALUES ('msg_2', 'ses_1', 2, 2, '{}')")
    before = path.read_bytes()
    assert b"Words of the log" not in before, "the test is about rows in the log"
    with lossless.open(":memory:", background=False) as engine:
        assert [item.messages for item in engine.transfer.import_transcripts("opencode", [path])] == [1]
        host.execute("COMMIT")
        other = {"id": "ses_2", "parentID": SESSION, "directory": "/home/user/work", "title": "Child"}
        host = with_rows(path, other, [(message("msg_9"), [text("prt_9", "Words of a sub-agent")])])
        found = {item.session.key: item.status for item in engine.transfer.import_transcripts("opencode", [path])}
    assert found == {
        "opencode:work:ses_1": "up-to-date", "opencode:work:ses_1:subagent:ses_2": "imported",
    }  # fmt: skip
    assert path.read_bytes() == before


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = opencode(tmp_path, "folders", [(message("msg_1"), [text("prt_1", "One"), text("prt_2", "Two")])])
    (tmp_path / "storage" / "part" / "msg_1" / "prt_2.json").write_text('{"type": "te')
    found = open_transcript(path)
    assert [text for _, _, text in said(found)] == ["One"]
    assert [line.reason for line in found.path() if isinstance(line, BadLine)] == ["prt_2.json: not JSON"]
    path.write_text('{"id": "ses')
    session = gemini(tmp_path, as_lines=False)
    session.write_text('{\n"sessionId": "s1",\n')
    for kind, file in (("opencode", path), ("gemini", session)):
        assert detect_kind(file) is None
        with pytest.raises(BadInput, match="being written"):
            open_transcript(file, kind)


def test_values_of_other_kinds_do_not_end_an_import(tmp_path: Path) -> None:
    """Ids that are lists, no ids at all, bytes and numbers in columns, a missing time, pipes and links to nothing."""
    ids: list[Any] = [[], {}, None]
    calls = [{"name": "shell", "id": id, "result": [{"text": f"result {n}"}]} for n, id in enumerate(ids)]
    calling = answer("b", "Three calls") | {"toolCalls": calls}
    session = gemini(tmp_path, prompt("a", "What is here?"), calling, {"type": "\ud800", "id": "\ud800", "x": 1})
    root = session.parent.parent / ".project_root"
    root.unlink()
    os.mkfifo(root)
    database = tmp_path / "opencode.db"
    messages = [(message("msg_1"), [text("prt_1", "One"), text("prt_2", "Two"), text("prt_3", "Three")])]
    host = with_rows(database, {"id": SESSION, "directory": "/home/user/work", "title": "T"}, messages)
    host.execute("UPDATE part SET data = x'ff' WHERE id = 'prt_2'; UPDATE part SET data = 5 WHERE id = 'prt_3'")
    host.execute("UPDATE session SET title = x'ff', time_updated = NULL; UPDATE part SET time_updated = NULL")
    two = [(message("msg_1"), [text("prt_1", "One"), text("prt_2", "Two")])]
    folders = opencode(tmp_path, "folders", two, id="ses_7")
    parts = tmp_path / "storage" / "part" / "msg_1"
    (tmp_path / "storage" / "message" / SESSION).rename(tmp_path / "storage" / "message" / "ses_7")
    (parts / "prt_3.json").symlink_to("nowhere")
    os.mkfifo(parts / "prt_4.json")
    half = gemini(tmp_path / "other", prompt("\ud800", "Half a letter"))
    with lossless.open(":memory:", background=False) as engine:
        found = engine.transfer.import_transcripts("gemini", [half, session])
        found += engine.transfer.import_transcripts("opencode", [database, folders])
        stored = [
            item.message.content
            for outcome in found
            if outcome.conversation_id is not None
            for item in engine.archive.messages.in_order(outcome.conversation_id)
        ]
        assert engine.verify().ok
    assert [(item.status, len(item.problems)) for item in found] == [
        ("error", 0), ("imported", 0), ("imported", 2), ("imported", 2),
    ]  # fmt: skip
    assert stored[1:5] == ["Three calls", "result 0", "result 1", "result 2"]
    assert stored[5:] == ["One", "One\nTwo"]


@pytest.mark.parametrize("id", ["ses_1/../../other", "ses_\0", "ses_\ud800"])
def test_an_id_that_names_no_folder_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("ses_1.json")
    file.write_text(json.dumps({"id": SESSION, "projectID": "global"}))
    assert open_transcript(file).header.id == SESSION, "a path need not be absolute"
    file.write_text(json.dumps({"id": id, "projectID": "global"}))
    assert detect_kind(file) is None


# --- reading again ---


class Chat:
    """A session that its program changes in place, and every text that was ever in it."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.ever: dict[str, set[str]] = {}

    def apply(self, step: str, place: int, number: int) -> None:
        if step == "add" or not self.words:
            self._set(f"m{len(self.ever)}", f"message {number}")
        elif step == "revise":
            self._set(list(self.words)[place % len(self.words)], f"revised {number}")
        else:
            for id in list(self.words)[-1 - place % len(self.words) :]:
                del self.words[id]

    def _set(self, id: str, text: str) -> None:
        self.words[id] = text
        self.ever.setdefault(id, set()).add(text)


STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "revise", "drop"]), st.integers(0, 9)), max_size=5)


@given(readings=st.lists(STEPS, min_size=1, max_size=4), form=st.sampled_from(["gemini", *FORMS]))
@settings(max_examples=20, deadline=None)
def test_whatever_changes_each_message_is_stored_once(
    tmp_path_factory: pytest.TempPathFactory, readings: list[list[tuple[str, int]]], form: str
) -> None:
    folder, chat = tmp_path_factory.mktemp("chat"), Chat()
    kind, number = "gemini" if form == "gemini" else "opencode", 0
    expected: dict[str, set[str]] = {}
    newest: dict[str, str] = {}
    with lossless.open(":memory:", background=False) as engine:
        for steps in readings:
            for step, place in steps:
                number += 1
                chat.apply(step, place, number)
            for file in folder.rglob("*"):
                if file.is_file():
                    file.unlink()
            if kind == "gemini":
                path = gemini(folder, *(prompt(id, words) for id, words in chat.words.items()), as_lines=False)
            else:
                rows = [(message(f"msg_{id[1:]}"), [text(f"prt_{id[1:]}", w)]) for id, w in chat.words.items()]
                path = opencode(folder, form, rows)
            outcomes = engine.transfer.import_transcripts(kind, [path])
            assert {item.status for item in outcomes} <= {"imported", "up-to-date", "skipped"}
            for id, words in chat.words.items():
                expected.setdefault(id, set()).add(words)
                newest[id] = words
        stored = [
            item
            for conversation in engine.archive.listings.conversations(limit=9).rows
            for item in engine.archive.messages.in_order(conversation.conversation_id)
        ]
        assert sorted(item.message.content for item in stored) == sorted(newest.values())
        ever = {version.message.content for item in stored for version in engine.archive.versions.of(item.id)}
        assert ever | set(newest.values()) >= set().union(*expected.values())

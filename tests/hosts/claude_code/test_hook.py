"""The hook as Claude Code calls it: every message kept once, a reference after a compaction, never a broken host."""

from __future__ import annotations

import fcntl
import json
import os
import select
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.formats.synthetic import EVIDENCE_CLOSE, EVIDENCE_OPEN
from lossless.hosts.claude_code import hook, session_cache
from lossless.hosts.claude_code.cues import prompt_cue
from lossless.hosts.claude_code.worker import REFERENCE_TOKENS, reference_entry
from lossless.model.tokens import estimate_tokens
from tests.hosts.claude_code.kit import HOOK, PROJECT, SESSION, Claude
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = f"claude-code:{PROJECT}:{SESSION}"


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


def test_a_turn_is_stored_when_it_stops(claude: Claude) -> None:
    claude.talk(2)
    told = claude.hook("Stop")
    assert (told.code, told.out, told.err) == (0, "", "")
    assert [len(texts) for texts in claude.stored().values()] == [4]
    claude.talk(1, start=2)
    claude.hook("Stop")
    claude.hook("Stop")
    stored = claude.stored()
    assert list(stored) == [KEY]
    assert len(stored[KEY]) == 6
    assert stored[KEY][4] == "Please fix ERR-4002 in src/queue_2.py."


def test_hooks_and_imports_are_one_history(claude: Claude) -> None:
    claude.talk(2)
    claude.agent_says("a1", "user", "Count the tests.")
    claude.hook("SessionEnd", reason="exit")
    assert {key: len(texts) for key, texts in claude.stored().items()} == {KEY: 4, f"{KEY}:subagent:a1": 1}
    with claude.engine() as engine:
        outlook = engine.transfer.import_transcripts("claude-code", [claude.transcript], dry_run=True)
        assert {outcome.status for outcome in outlook} == {"up-to-date"}
        again = engine.transfer.import_transcripts("claude-code", [claude.transcript])
        assert [outcome.messages for outcome in again] == [0, 0]
        projects = engine.sql("SELECT project FROM conversation_extras")
        assert [row["project"] for row in projects] == ["/home/me/ferry"] * 2


def test_imports_and_hooks_are_one_history(claude: Claude) -> None:
    claude.talk(2)
    with claude.engine() as engine:
        assert [
            outcome.messages for outcome in engine.transfer.import_transcripts("claude-code", [claude.transcript])
        ] == [4]
    claude.talk(1, start=2)
    claude.hook("Stop")
    assert {key: len(texts) for key, texts in claude.stored().items()} == {KEY: 6}


def test_sub_agents_have_conversations_of_their_own(claude: Claude) -> None:
    claude.talk(1)
    claude.agent_says("a1", "user", "Count the tests.")
    path = claude.agent_says("a1", "assistant", "There are 42 tests.")
    claude.hook("SubagentStop", agent_id="a1", agent_transcript_path=str(path))
    assert claude.stored()[f"{KEY}:subagent:a1"] == ["Count the tests.", "There are 42 tests."]
    claude.agent_says("a1", "user", "Name them.")
    claude.hook("Stop")
    claude.hook("Stop")
    assert claude.stored()[f"{KEY}:subagent:a1"][2:] == ["Name them."]


def test_a_session_in_which_nothing_was_said_makes_no_conversation(claude: Claude) -> None:
    claude.transcript.parent.mkdir(parents=True)
    claude.transcript.write_text('{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}\n')
    assert claude.hook("Stop").err == ""
    assert claude.stored() == {}
    claude.talk(1)
    claude.hook("Stop")
    assert {key: len(texts) for key, texts in claude.stored().items()} == {KEY: 2}


def test_sub_agents_in_the_main_file_are_stored_at_the_end(claude: Claude) -> None:
    claude.talk(1)
    claude.say("user", "Count the tests.", isSidechain=True, agentId="old", parentUuid=None)
    claude.hook("SessionEnd", reason="exit")
    assert claude.stored()[f"{KEY}:subagent:old"] == ["Count the tests."]


# --- compaction -----------------------------------------------------------------------------------


def test_after_a_compaction_the_model_is_told_where_things_stand(claude: Claude) -> None:
    claude.talk(150)
    claude.say("user", "Now deploy the ferry to port 8443, but never on a Friday.")
    assert claude.hook("PreCompact", trigger="auto").out == ""
    told = claude.hook("SessionStart", source="compact")
    text = told.context
    assert told.err == ""
    assert json.loads(told.out)["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "] Now deploy the ferry to port 8443, but never on a Friday." in text
    assert "Please fix ERR-4149 in src/queue_149.py." in text
    assert "we decided that MAX_RETRIES_149" in text
    assert 'trust="untrusted"' in text
    assert "lcm_recall(question, conversationId=1)" in text
    assert estimate_tokens(text) <= REFERENCE_TOKENS


def test_without_a_note_the_reference_is_made_at_once(claude: Claude) -> None:
    claude.talk(3)
    assert "Please fix ERR-4002" in claude.hook("SessionStart", source="compact").context


def test_what_is_folded_before_a_compaction_can_be_opened(claude: Claude) -> None:
    claude.talk(400)
    claude.hook("PreCompact", trigger="manual")
    wait_for(lambda: "sum_" in str(_note(claude).get("reference")))
    text = claude.hook("SessionStart", source="compact").context
    id_ = text[text.index("sum_") :].split(",")[0]
    with claude.engine() as engine:
        assert engine.describe(id_)
        assert engine.verify().ok


def test_a_prompt_that_names_what_was_compacted_gets_a_cue(claude: Claude) -> None:
    claude.talk(5)
    assert claude.hook("UserPromptSubmit", prompt="What about ERR-4003?").out == ""
    claude.hook("PreCompact", trigger="auto")
    assert claude.hook("UserPromptSubmit", prompt="What about ERR-4003?").out == ""  # it may still be refused
    claude.hook("SessionStart", source="compact")
    wait_for(lambda: _note(claude).get("compacted"))
    cue = claude.hook("UserPromptSubmit", prompt="What about ERR-4003, and MAX_RETRIES_1?").context
    assert "ERR-4003 (msg#8, msg#7)" in cue
    assert "MAX_RETRIES_1 (msg#4)" in cue
    assert estimate_tokens(cue) < 100
    assert claude.hook("UserPromptSubmit", prompt="Hello again.").out == ""


def _compacted(claude: Claude) -> None:
    claude.hook("PreCompact", trigger="auto")
    claude.hook("SessionStart", source="compact")
    wait_for(lambda: _note(claude).get("compacted"))


def test_a_prompt_gets_evidence_where_that_is_switched_on(claude: Claude) -> None:
    claude.more["LCM_HOOK_EVIDENCE"] = "true"
    claude.say("user", "The lighthouse keeper is called Ingrid Solberg.")
    claude.say("assistant", [{"type": "text", "text": "Noted: Ingrid Solberg keeps the lighthouse."}])
    claude.talk(4)
    question = "What was the name of the lighthouse keeper?"
    claude.hook("Stop")
    assert claude.hook("UserPromptSubmit", prompt=question).out == ""  # nothing is compacted
    _compacted(claude)
    told = claude.hook("UserPromptSubmit", prompt=question).context
    assert told.startswith(EVIDENCE_OPEN)
    assert "[msg#1, user, 2026-07-01] The lighthouse keeper is called Ingrid Solberg." in told
    assert "Ingrid" not in claude.hook("UserPromptSubmit", prompt=question).out  # it was told just now
    assert claude.hook("UserPromptSubmit", prompt="Thanks a lot!").out == ""
    claude.say("user", question)
    record = {"type": "attachment", "uuid": "a-1", "parentUuid": claude.last, "sessionId": claude.session}
    claude.add(record | {"attachment": {"type": "hook_additional_context", "content": [told, "of another hook"]}})
    claude.hook("Stop")
    with claude.engine() as engine:
        assert len(claude.stored()[KEY]) == 11
        kept = [found["attachment"] for _, kind, found in engine.archive.transcripts.records(1) if kind == "attachment"]
        assert kept == [{"type": "hook_additional_context", "content": ["of another hook"]}]
        assert engine.sql("SELECT count(*) AS n FROM messages WHERE content LIKE '%lossless_evidence%'") == [{"n": 0}]


def test_evidence_is_off_unless_it_is_switched_on(claude: Claude) -> None:
    claude.say("user", "The lighthouse keeper is called Ingrid Solberg.")
    claude.talk(4)
    claude.hook("Stop")
    _compacted(claude)
    assert claude.hook("UserPromptSubmit", prompt="What was the name of the lighthouse keeper?").out == ""


def test_a_name_from_long_ago_gets_a_cue_too(claude: Claude) -> None:
    with claude.engine() as engine:
        session = lossless.Session(key="k")
        said = [{"role": "user", "content": f"Fix ERR-{10_000 + n} in src/queue_{n}.py."} for n in range(2_500)]
        engine.append(session, said)
        engine.append(session, [{"role": "user", "content": f"see every_where {n}"} for n in range(13)])
        conversation = engine.archive.conversations.find(session)
        assert conversation is not None
        known: dict[str, object] = {**reference_entry(engine, conversation.id), "conversationId": conversation.id}
        engine.append(session, [{"role": "user", "content": "A new_name, spoken of after the compaction."}])
    text = prompt_cue("What became of ERR-10005, src/queue_7.py, every_where, new_name and err-10009?", known)
    assert "ERR-10005 (msg#6); src/queue_7.py (msg#8)." in text
    assert prompt_cue("ERR-10005", known | {"archive": str(claude.home / "nowhere.db")}) == ""
    assert not (claude.home / "nowhere.db").exists()


def test_open_work_is_told_before_anything_is_folded(claude: Claude) -> None:
    claude.talk(1)
    for status in ("pending", "in_progress"):
        todos = [
            {"content": "Read the log", "status": "completed", "activeForm": "Reading"},
            {"content": "Mend the ferry", "status": status, "activeForm": "Mending"},
            {"content": "Tell the harbour", "status": "pending", "activeForm": "Telling"},
        ]
        call = {"type": "tool_use", "id": f"t-{status}", "name": "TodoWrite", "input": {"todos": todos}}
        claude.say("assistant", [call])
        claude.say("user", [{"type": "tool_result", "tool_use_id": f"t-{status}", "content": "Todos were modified."}])
    claude.hook("PreCompact", trigger="auto")
    text = claude.hook("SessionStart", source="compact").context
    assert "Open work, by the assistant's last list:" in text
    assert "- [in_progress] Mend the ferry\n- [pending] Tell the harbour\n" in text
    assert "Read the log" not in text


def test_open_tasks_are_told_whatever_single_calls_made_of_them(claude: Claude) -> None:
    claude.talk(1)
    made = ["Read the log", "Mend  the ferry", "Tell the harbour", "Paint it", "Sell it"]
    inputs = [{"subject": words, "description": "all of it"} for words in made]
    create = {"type": "tool_use", "name": "TaskCreate"}
    claude.say("assistant", [create | {"id": f"c-{n}", "input": given} for n, given in enumerate(inputs)])
    results = [
        {"type": "tool_result", "tool_use_id": f"c-{n}", "content": f"Task #{n + 1} created successfully: {words}"}
        for n, words in enumerate(made)
    ]
    claude.say("user", results[:-1])
    claude.say("user", [results[-1] | {"content": "Error: no more tasks", "is_error": True}])
    for n, given in enumerate(
        [
            {"taskId": "1", "status": "completed"},
            {"taskId": "2", "status": "in_progress"},
            {"taskId": "3", "subject": "Tell both harbours"},
            {"taskId": "4", "status": "deleted"},
        ]
    ):
        claude.say("assistant", [{"type": "tool_use", "id": f"u-{n}", "name": "TaskUpdate", "input": given}])
        done = [{"type": "text", "text": f"Updated task #{given['taskId']} status"}]
        claude.say("user", [{"type": "tool_result", "tool_use_id": f"u-{n}", "content": done}])
    claude.hook("PreCompact", trigger="auto")
    text = claude.hook("SessionStart", source="compact").context
    assert "- [in_progress] #2 Mend the ferry\n- [pending] #3 Tell both harbours\n" in text
    assert not [words for words in ("Read the log", "Paint it", "Sell it") if words in text]


def test_summaries_of_the_host_and_commands_are_no_requests(claude: Claude) -> None:
    claude.talk(1)
    claude.say("user", "This session is being continued from a previous conversation that ran out of context.")
    claude.say("user", "<command-name>/compact</command-name>", isMeta=True)
    claude.say("user", "Continue from where you left off.", isMeta=True)
    claude.say("assistant", [{"type": "text", "text": "No response requested."}])
    claude.say("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a long output"}])
    text = claude.hook("SessionStart", source="compact").context
    assert "Last request of the user, verbatim:\n[msg#1, 2026-07-01T09:00:00.000Z] Please fix ERR-4000" in text
    assert "Last words of the assistant:\n[msg#2, 2026-07-01T09:00:01.000Z] I fixed ERR-4000" in text


# --- what a host may rely on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [b"", b"not json", b"[]", b"{", b'"text"', b"\xff\xfe", b"{}" * 3],
    ids=["nothing", "words", "a list", "half", "a text", "bytes", "several"],
)
def test_a_broken_event_is_said_and_nothing_else(claude: Claude, text: bytes) -> None:
    told = claude.send(text)
    assert (told.code, told.out) == (0, "")
    assert told.err.startswith("lcm-hook: ")
    assert not claude.archive.exists()


def test_events_that_nobody_knows_are_fine(claude: Claude) -> None:
    for event in ({"hook_event_name": "Notification"}, {}, {"hook_event_name": "Stop"}):
        told = claude.send(json.dumps(event).encode())
        assert (told.code, told.out, told.err) == (0, "", "")


@pytest.mark.parametrize("name", ["Stop", "PreCompact", "SessionEnd", "UserPromptSubmit"])
def test_a_transcript_that_is_not_there_is_fine(claude: Claude, name: str) -> None:
    told = claude.hook(name)
    assert (told.code, told.out, told.err) == (0, "", "")


def test_an_archive_that_cannot_be_used_is_said(claude: Claude) -> None:
    claude.talk(1)
    claude.archive.mkdir()
    told = claude.hook("Stop")
    assert told.code == 0
    assert "it is a folder" in told.err
    assert "it is a folder" in json.loads(told.out)["systemMessage"]
    assert claude.hook("SessionStart", source="compact").code == 0


def test_a_process_that_dies_is_said(claude: Claude) -> None:
    (claude.home / "site").mkdir()
    code = "import os, sys\nif any('worker' in word for word in sys.orig_argv): os._exit(3)\n"
    (claude.home / "site" / "sitecustomize.py").write_text(code)
    claude.more["PYTHONPATH"] = str(claude.home / "site")
    claude.talk(1)
    told = claude.hook("Stop")
    assert told.code == 0
    assert "ended without a word" in told.err
    assert "not everything was stored" in json.loads(told.out)["systemMessage"]


def test_a_transcript_of_no_known_kind_is_said(claude: Claude) -> None:
    claude.transcript.parent.mkdir(parents=True)
    claude.transcript.write_text('{"what": "is this"}\n')
    assert "not a transcript of a known kind" in claude.hook("Stop").err


@contextmanager
def _held(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers behind hooks wait for us, and so go on for as long as we like; hooks do not wait for them."""
    claude.more["LCM_HOOK_WAIT_MS"] = "0"
    for name in [name for name in os.environ if name.startswith(("LCM_", "OPENCLAW_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "LCM_DATABASE_PATH", "LCM_HOOK_WAIT_MS"):
        monkeypatch.setenv(name, claude.environment[name])
    place = session_cache.cache_file(claude.event("Stop"))
    assert place is not None
    os.makedirs(session_cache.cache_folder())
    with open(f"{place}.now", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_nobody_waits_for_a_long_import(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    claude.talk(1_500)
    with _held(claude, monkeypatch):
        told = claude.hook("Stop")
        assert (told.code, told.out, told.err) == (0, "", "")
        assert not claude.archive.exists()
    wait_for(lambda: _note(claude).get("read") is not None)
    assert len(claude.stored()[KEY]) == 3_000


def test_a_compaction_is_prepared_for_however_many_are_waiting(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that starts, is asked and compacts within a moment has one worker running and one waiting by then."""
    claude.talk(4)
    command = [sys.executable, "-P", "-m", "lossless.hosts.claude_code.worker"]
    forgetting, stopped = (json.dumps(claude.event(name)) for name in ("PreCompact", "Stop"))
    with _held(claude, monkeypatch), open(f"{session_cache.cache_file(claude.event('Stop'))}.next", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = subprocess.Popen([*command, forgetting], stdout=subprocess.PIPE, text=True)
        for _ in range(2):
            others = subprocess.run([*command, stopped], capture_output=True, text=True, check=True)
            assert json.loads(others.stdout) == {"busy": True}
        assert worker.poll() is None
    out, _ = worker.communicate(timeout=60)
    assert "<lossless_reference " in json.loads(out)["reference"]


def test_a_reference_that_was_not_ready_in_time_comes_with_the_next_prompt(
    claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.talk(4)
    monkeypatch.setattr(hook, "_WAIT_FOR_REFERENCE", 0.1)
    with _held(claude, monkeypatch):
        assert hook.respond(claude.event("SessionStart", source="compact")) is None
        assert hook.respond(claude.event("UserPromptSubmit", prompt="Hello.")) is None
    wait_for(lambda: _note(claude).get("compacted"))
    asked = [claude.hook("UserPromptSubmit", prompt="Go on.").context for _ in range(2)]
    assert "Please fix ERR-4003" in asked[0]
    assert asked[1] == ""


def test_the_process_behind_a_hook_holds_nothing_of_its_host(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host reads its pipes, whatever their numbers, until nobody holds them any more."""
    claude.talk(1)
    reading, writing = os.pipe()
    with _held(claude, monkeypatch):
        event = json.dumps(claude.event("Stop")).encode()
        with subprocess.Popen(HOOK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(writing,)) as hook:
            os.close(writing)
            out, _ = hook.communicate(event, timeout=60)
        assert out == b""
        assert select.select([reading], [], [], 60)[0]
        assert os.read(reading, 1) == b""
        os.close(reading)
        assert not claude.archive.exists()
    wait_for(lambda: _note(claude).get("read") is not None)


def test_two_hooks_at_the_same_time_store_everything_once(claude: Claude) -> None:
    claude.talk(40)
    text = json.dumps(claude.event("Stop")).encode()
    command = [sys.executable, "-m", "lossless.hosts.claude_code.hook"]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=claude.environment)
        for _ in range(4)
    ]
    for process in running:
        _, err = process.communicate(text, timeout=90)
        assert (process.returncode, err) == (0, b"")
    wait_for(lambda: _note(claude).get("read") is not None)
    assert [len(texts) for texts in claude.stored().values()] == [80]


def test_the_hook_loads_nothing_heavy(claude: Claude) -> None:
    code = (
        "import sys; from lossless.hosts.claude_code import hook, cues; hook.main(['{}']);"
        "print(sorted({name.split('.')[0] for name in sys.modules}), sorted(n for n in sys.modules if 'lossless' in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("click", "rich", "pydantic", "apsw", "dataclasses", "subprocess", "asyncio", "mcp"):
        assert f"'{heavy}'" not in done.stdout, heavy
    assert "lossless.engine" not in done.stdout


def test_what_lies_in_the_folder_of_a_project_is_neither_run_nor_read(claude: Claude) -> None:
    for name in ("json.py", "lossless.py", "select.py", "apsw.py", "zoneinfo.py"):
        (claude.home / name).write_text(f"open({str(claude.home / 'ran')!r}, 'w')")
    (claude.home / "lossless.toml").write_text(f"databasePath = {str(claude.home / 'theirs.db')!r}\n")
    claude.more["LCM_DATABASE_PATH"] = ""
    project = claude.home
    claude.talk(1)
    claude.more["HOME"] = str(claude.home / "me")
    (claude.home / "me").mkdir()
    assert claude.hook("Stop").err == ""
    assert not (project / "ran").exists()
    assert not (project / "theirs.db").exists()
    assert (claude.home / "me" / ".local" / "share" / "lossless" / "lcm.db").exists()


def test_an_archive_can_be_named(claude: Claude) -> None:
    claude.talk(1)
    other = claude.home / "other.db"
    claude.send(json.dumps(claude.event("Stop")).encode(), "--db", str(other))
    assert not claude.archive.exists()
    with lossless.open(other, background=False) as engine:
        assert engine.archive.listings.counts().messages == 2
    assert "needs a path" in claude.send(b"{}", "--db").err


def test_notes_are_for_their_owner(claude: Claude) -> None:
    claude.talk(1)
    claude.hook("PreCompact", trigger="auto")
    files = list((claude.home / ".local" / "state" / "lossless" / "hooks").glob("*.json"))
    assert len(files) == 1
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    files[0].write_text("{ broken")
    assert claude.hook("UserPromptSubmit", prompt="ERR-4000").code == 0


def test_codex_speaks_the_same_way(claude: Claude) -> None:
    """A rollout of Codex, its hook event, and its older notification."""
    thread = "0198c0de-aaaa-7bbb-8ccc-dddddddddddd"
    path = claude.home / ".codex" / "sessions" / "2026" / "07" / "01" / f"rollout-2026-07-01T09-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True)

    def line(type_: str, payload: dict[str, object]) -> str:
        return json.dumps({"timestamp": "2026-07-01T09:00:00.000Z", "type": type_, "payload": payload}) + "\n"

    def said(role: str, text: str) -> str:
        return line(
            "response_item", {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        )

    head = line("session_meta", {"id": thread, "cwd": "/home/me/ferry", "timestamp": "2026-07-01T09:00:00.000Z"})
    path.write_text(head + said("user", "Which port?") + said("assistant", "8443."))
    event = claude.event("Stop") | {"transcript_path": str(path), "session_id": thread}
    assert claude.send(json.dumps(event).encode()).err == ""
    assert claude.stored() == {f"codex:ferry:{thread}": ["Which port?", "8443."]}
    with path.open("a") as file:
        file.write(said("user", "And the host?"))
        file.write(said("developer", f"{EVIDENCE_OPEN}- [msg#1, user, 2026-07-01] Which port?{EVIDENCE_CLOSE}"))
    notice = {"type": "agent-turn-complete", "thread-id": thread, "cwd": "/home/me/ferry"}
    assert claude.send(b"", json.dumps(notice)).err == ""
    assert claude.stored()[f"codex:ferry:{thread}"][-1] == "And the host?"
    with claude.engine() as engine:
        assert {found.status for found in engine.transfer.import_transcripts("codex", [path], dry_run=True)} == {
            "up-to-date"
        }


def _note(claude: Claude) -> dict[str, object]:
    folder = claude.home / ".local" / "state" / "lossless" / "hooks"
    files = list(folder.glob("*.json"))
    return json.loads(files[0].read_text()) if files else {}


def test_a_note_is_current_until_the_transcript_grows(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(claude.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    event = claude.event("Stop")
    assert session_cache.is_current({}, event)
    claude.talk(1)
    assert not session_cache.is_current({}, event)
    session_cache.save(event, {"read": session_cache.transcript_stamp(claude.transcript)})
    assert session_cache.is_current(session_cache.load(event), event)
    claude.talk(1, start=1)
    assert not session_cache.is_current(session_cache.load(event), event)
    session_cache.forget_old(days=-1)
    assert session_cache.load(event) == {}

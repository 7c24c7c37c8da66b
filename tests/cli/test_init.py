"""The first minute: `lcm` alone, `lcm init`, `lcm demo`, and the model that writes summaries."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

import lossless
from bench.first_run import write_home
from lossless.testing import sample_conversation
from lossless.testing.provider import Provider, Request, Say, Status

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

ARCHIVE = ".local/share/lossless/lcm.db"


@pytest.fixture
def history(home: Path) -> Path:
    """A home with transcripts of six programs."""
    write_home(home, 12)
    chat = home / ".gemini" / "tmp" / "a1" / "chats" / "session-1.json"
    chat.parent.mkdir(parents=True)
    said = [{"id": "a", "type": "user", "content": [{"text": "Which seats are on the ferry to Alvhild?"}]}]
    chat.write_text(json.dumps({"sessionId": "s", "projectHash": "h", "messages": said}))
    info = {"id": "ses_1", "projectID": "global", "directory": "/w", "title": "A sandbox"}
    storage = home / ".local" / "share" / "opencode" / "storage"
    for place, record in (
        ("session/global/ses_1", info),
        ("message/ses_1/msg_1", {"id": "msg_1", "role": "user", "time": {"created": 1_767_355_200_000}}),
        ("part/msg_1/prt_1", {"id": "prt_1", "type": "text", "text": "Make a sandbox for the seats"}),
    ):
        file = storage / f"{place}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(record))
    (storage.parent / "auth.json").write_text("not read")
    return home


def files_in(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_lcm_alone_says_what_is_on_this_machine(lcm: Lcm, history: Path) -> None:
    before = files_in(history)
    shown = lcm()
    assert shown.code == 0
    for line in (
        "Claude Code      ",
        "Codex            ",
        "Gemini CLI       ",
        "OpenCode         ",
        "lcm init",
    ):
        assert line in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    said = " ".join(str(message["content"]) for message in sample_conversation())
    assert not [word for word in ("sandbox", "Alvhild", "seats") if word not in said or word in shown.out]
    found = {item["program"]: item["files"] for item in lcm("--json").data["found"]}
    assert found == {"Claude Code": 7, "Codex": 3, "OpenClaw": 1, "pi": 1, "OpenCode": 1, "Gemini CLI": 1}
    assert lcm("init", "--dry-run").code == 0
    assert lcm("init").code == 2, "nobody is there to answer"
    assert files_in(history) == before


def test_init_ends_with_a_command_that_finds_something(lcm: Lcm, history: Path) -> None:
    done = lcm("init", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "Imported: 14 conversations" in done.out
    assert "Connected Claude Code" in done.out
    assert not (history / ".openclaw" / "openclaw.json").exists()
    command = next(line for line in done.out.splitlines() if line.startswith("  lcm recall "))
    found = lcm(*shlex.split(command)[1:]).data
    words = shlex.split(command)[-1].split()
    assert any(all(word in item["text"].casefold() for word in words) for item in found["evidence"])
    before = {name: text for name, text in files_in(history).items() if "lcm.db" not in name}
    again = lcm("init", "--yes", "--json").data
    assert again["imported"] == {"up-to-date": 14, "messages": 0}
    assert "connected" not in again
    assert {name: text for name, text in files_in(history).items() if "lcm.db" not in name} == before
    assert f"{history}/.openclaw/lcm.db" in lcm().out


def test_a_second_dry_run_knows_what_is_there(lcm: Lcm, history: Path) -> None:
    dry = ("init", "--dry-run", "--connect", "none", "--json")
    new = lcm(*dry).data["imports"]
    lcm("init", "--yes", "--connect", "none")
    assert (new > 0, lcm(*dry).data["imports"]) == (True, 0)
    assert "there is nothing new" in lcm("init", "--dry-run", "--connect", "none").out


def test_init_says_what_went_wrong_and_does_the_rest(lcm: Lcm, history: Path) -> None:
    (history / ".claude" / "settings.json").write_text("{ not JSON")
    (history / ".codex" / "sessions" / "rollout-bad.jsonl").write_text("not JSON\n")
    done = lcm("init", "--yes", "--db", history / "mine.db")
    assert done.code == 1
    assert "Claude Code cannot be connected" in done.out
    assert "rollout-bad.jsonl: no line of it can be read" in done.out
    assert f"lcm --db {history}/mine.db recall" in done.out
    assert "Imported: 14 conversations" in done.out


def test_import_alone_finds_what_programs_changed_in_place(lcm: Lcm, history: Path) -> None:
    folders = (history / ".local" / "share" / "opencode", history / ".gemini")
    first = lcm("import", *folders, "--create", "--json").data
    assert (first["kind"], first["conversations"], first["messages"]) == ("opencode, gemini", {"imported": 2}, 2)
    assert first["otherKinds"] == {"unknown": 1}, "auth.json; the parts of messages are no transcripts"
    (folders[0] / "storage" / "part" / "msg_1" / "prt_1.json").write_text('{"type": "text", "text": "A sandbox"}')
    counts = [lcm("import", kind, "--apply").data["conversations"] for kind in ("opencode", "gemini")]
    assert counts == [{"imported": 1}, {"up-to-date": 1}]
    assert lcm("import", "--dry-run", "--json").data["conversations"]["up-to-date"] == 2


def test_an_empty_machine(lcm: Lcm, home: Path) -> None:
    assert "No agent programs were found" in lcm().out
    assert "The archive is empty" in lcm("init", "--yes").out
    assert (home / ARCHIVE).exists()
    assert "0 conversations, 0 messages" in lcm().out


def answered(*arguments: str, answers: list[str]) -> tuple[int, str]:
    """The exit code and output of a real run at a terminal where somebody answers each question."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lossless.cli.main", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=os.environ | {"TERM": "dumb"}
    ) as run:
        os.close(theirs)
        text, left = "", list(answers)
        while True:
            try:
                text += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # how a terminal says that nobody writes any more
                break
            if left and text.endswith("]: "):
                os.write(ours, left.pop(0).encode() + b"\n")
                time.sleep(0.05)
    os.close(ours)
    assert not left, text
    return run.returncode, text


def test_the_questions_of_init(history: Path, lcm: Lcm) -> None:
    code, text = answered(answers=["", "", "n", "", "none"])
    assert code == 0, text
    assert text.index("Run `lcm init` now? [Y/n]") < text.index("Import 14 transcripts") < text.index("Connect Claude")
    assert text.index("Connect Codex") < text.index("Model [none]")
    assert "lcm recall " in text
    assert not (history / ".claude" / "settings.json").exists()
    assert (history / ".codex" / "hooks.json").exists()
    assert "there is nothing new" in lcm("init", "--dry-run").out
    code, text = answered("init", answers=["n", "none"])
    assert (code, "Every transcript is imported already." in text, "Import " in text) == (0, True, False), text
    (history / ".local/share/opencode/storage/message/ses_1/msg_1.json").write_text('{"id": "msg_1", "role": "user"}')
    assert "import 1 transcript\n" in lcm("init", "--dry-run").out


def test_a_mistyped_archive_is_not_made(lcm: Lcm, archive: Path) -> None:
    typed = archive.with_name("lmc.db")
    append = ("append", "--session-key", "k", "--db", typed)
    refused = lcm(*append, input='{"role": "user", "content": "hi"}\n')
    assert refused.code == 3
    assert "--create" in refused.error["details"]["hint"]
    assert f"Did you mean {archive}?" in refused.error["details"]["hint"]
    chat = archive.with_name("chat.jsonl")
    chat.write_text('{"role": "user", "content": "hi"}\n')
    code, text = answered("import", "jsonl", str(chat), "--apply", "--db", str(typed), answers=["n"])
    assert (code, typed.exists()) == (130, False), text
    assert lcm(*append, "--create", input='{"role": "user", "content": "hi"}\n').data["stored"] == 1
    assert typed.exists()


def test_the_demo_leaves_nothing_behind(lcm: Lcm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(tmp_path.rglob("*"))
    shown = lcm("demo")
    assert (shown.code, shown.err) == (0, "")
    assert "Verified: 400 messages" in shown.out
    assert set(tmp_path.rglob("*")) == before
    (tmp_path / "lcm.db").write_text("mine")
    assert lcm("demo", "--keep", tmp_path).code == 2
    assert (tmp_path / "lcm.db").read_text() == "mine"


# --- models --------------------------------------------------------------------------------------------------


def script(request: Request) -> Say | Status:
    if request.method == "GET":
        return Status(200, {"data": [{"id": "small-1"}]})
    return Say("Bookings failed on Fridays; the limit is 1 GB now.")


def test_a_server_is_tried_priced_and_saved(lcm: Lcm, archive: Path, home: Path) -> None:
    with Provider(script) as provider:
        tried = lcm("model", "use", f"{provider.url}/v1", "--json").data
    assert (tried["name"], tried["tried"]["ok"]) == ("local/small-1", True)
    assert tried["tried"]["inputTokens"] > 0
    assert tried["archive"]["cost"] == 0.0
    assert tried["archive"]["messageTokens"] > 0
    saved = (home / ".config" / "lossless" / "lossless.toml").read_text()
    assert saved == f'summaryModel = "local/small-1"\nsummaryBaseUrl = "{provider.url}/v1"\n'
    now = lcm("model").out
    assert "local/small-1" in now
    assert "it runs on this machine" in now
    lcm("config", "set", "modelPrices", json.dumps({"local/small-1": {"input": 3, "output": 9}}))
    assert "$3 in, $9 out" in lcm("model").out
    assert lcm("model", "use", "none").code == 0
    assert "summaryModel" not in (home / ".config" / "lossless" / "lossless.toml").read_text()
    assert "No model writes summaries" in lcm("model").out


def test_a_command_and_a_program_that_is_logged_in(
    lcm: Lcm, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncat > /dev/null\necho "$@ $LCM_WRITING_SUMMARY" > {tmp_path}/asked\necho Ferries.\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert lcm("model", "use", "claude", "--dry-run", "--json").data["tried"]["answer"] == "Ferries."
    assert (tmp_path / "asked").read_text().split() == ["-p", "--no-session-persistence", "1"]
    assert not (home / ".config").exists()
    shown = lcm("model", "use", f"{program} -p")
    assert shown.code == 0
    assert re.search(r"Tried +\d\.\d s\n *Answer +Ferries\.\n", re.sub(" +\n", "\n", shown.out))
    assert lcm("config", "get", "summaryModel").data["effectiveValue"] == f"command/{program} -p"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("openai/gpt-5-mini", 4, "OPENAI_API_KEY"),
        ("gpt-5-mini", 2, "Did you mean openai/gpt-5-mini?"),
        ("nowhere/model", 2, "PROVIDER/MODEL"),
        ("codex", 4, "no program 'codex'"),
        ("http://127.0.0.1:9/v1", 4, "--model NAME"),
        ("false", 1, "exit code 1"),
    ],
)
def test_what_a_model_lacks_is_named(
    lcm: Lcm, home: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, words: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refused = lcm("model", "use", name)
    assert refused.code == code
    assert words in refused.err
    assert not (home / ".config").exists()


def test_list_prices_have_a_date_and_fit_the_setting() -> None:
    from lossless.llm.completion import list_prices
    from lossless.settings.model_rules import PRICES

    prices, as_of = list_prices()
    assert len(as_of) == len("2026-01-01")
    assert len(PRICES.read(prices)) == len(prices)


@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("enabled", "off", False),
        ("contextThreshold", "60%", 0.6),
        ("largeFileThresholdTokens", "20k", 20_000),
        ("freshTailCount", "1,000", 1000),
        ("summaryTimeoutMs", "2 minutes", 120_000),
        ("independentLogFile.maxFileBytes", "2 MB", 2 << 20),
        ("hostFallbackMode", "capture-only", "capture-only"),
        ("summaryModel", "ollama/llama3.2", "ollama/llama3.2"),
        ("ignoreSessionPatterns", "cron:**, test:*", ["cron:**", "test:*"]),
    ],
)
def test_settings_take_plain_words(lcm: Lcm, key: str, typed: str, value: object) -> None:
    usual = lcm("config", "get", key).data["effectiveValue"]
    assert lcm("config", "set", key, typed).data["newValue"] == value
    assert lcm("config", "get", key).data["effectiveValue"] == value
    assert lcm("config", "set", key, "default").data["newValue"] is None
    assert lcm("config", "get", key).data["effectiveValue"] == usual


def test_an_archive_is_found_by_every_door(lcm: Lcm, home: Path) -> None:
    """The command makes it where the library, and so every host, looks for it."""
    lcm("append", "--session-key", "k", input='{"role": "user", "content": "where is it"}\n')
    with lossless.open(background=False) as engine:
        assert engine.browse.path == str(home / ARCHIVE)
        assert engine.browse.counts().messages == 1

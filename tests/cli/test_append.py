"""Storing from the shell: batches, bad lines, windows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.cli.append import BatchAppender, parse, read_lines, unwrap
from lossless.store.archive import Archive
from tests.waiting import wait_for

from .conftest import said

if TYPE_CHECKING:
    from .conftest import Lcm

GOOD = [json.dumps(said(n)) for n in range(5)]
KEY = ("--session-key", "k")


def stored(path: Path) -> list[str]:
    with lossless.open(path, background=False) as engine:
        return [stored.message.content for stored in engine.archive.messages.in_order(1)]


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of an archive that is not there yet."""
    path = tmp_path / "new" / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return path


def test_append_from_standard_input_and_files(lcm: Lcm, new: Path, tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text("\ufeff" + "\n\n".join(GOOD[3:]) + "\n   \n", encoding="utf-8")
    answer = lcm("append", *KEY, "-", file, input="\r\n".join(GOOD[:3]))
    assert answer.envelope["command"] == "append"
    assert answer.data == {
        "conversationId": 1, "messages": 5, "stored": 5, "replayed": 0, "stamped": 0, "revised": 0, "likely": 0,
        "ambiguous": 0, "skipped": 0, "skippedReasons": {}, "badLines": 0, "bad": [],
    }  # fmt: skip
    assert stored(new) == [said(n)["content"] for n in range(5)]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 1000])
def test_batches_do_not_matter(lcm: Lcm, new: Path, batch: int) -> None:
    assert lcm("append", *KEY, "--batch", batch, input="\n".join(GOOD)).data["stored"] == 5
    assert stored(new) == [said(n)["content"] for n in range(5)]


def test_a_batch_ends_early_when_its_lines_are_long(lcm: Lcm, new: Path) -> None:
    long = json.dumps({"role": "user", "content": "x" * 5_000_000})
    assert lcm("append", *KEY, input="\n".join([long] * 3)).data["stored"] == 3


def test_wrapped_messages_have_ids_and_times(lcm: Lcm, new: Path) -> None:
    wrapped = [
        {"message": said(0), "id": "e0", "timestamp": "2026-07-01T09:00:00Z", "type": "message", "parentId": None},
        {"message": said(1), "id": 7, "timestamp": 1782896400},
        {"message": said(2), "timestamp": 1782896400500},
        {"message": said(3)},
    ]
    text = "\n".join(json.dumps(line) for line in wrapped)
    assert lcm("append", *KEY, input=text).data["stored"] == 4
    rows = lcm("messages", "list", *KEY).items
    assert [row["createdAt"] for row in reversed(rows)][:3] == [
        "2026-07-01T09:00:00.000Z", "2026-07-01T09:00:00.000Z", "2026-07-01T09:00:00.000Z",
    ]  # fmt: skip
    assert [lcm("messages", "show", n).data["entryId"] for n in (1, 2, 3)] == ["e0", "7", None]
    again = lcm("append", *KEY, input="\n".join(text.splitlines()[:2])).data
    assert (again["stored"], again["replayed"]) == (0, 2)


def test_every_format_is_taken(lcm: Lcm, new: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "bin etc"}]},
        {"type": "function_call", "call_id": "f1", "name": "ls", "arguments": "{}"},
        {"role": "toolResult", "toolCallId": "o1", "toolName": "ls", "content": [{"type": "text", "text": "bin"}]},
    ]
    assert lcm("append", *KEY, input="\n".join(json.dumps(message) for message in messages)).data["stored"] == 5
    formats = [lcm("messages", "show", n).data["format"] for n in range(1, 6)]
    assert formats == ["openai-chat", "anthropic", "anthropic", "openai-responses", "openclaw"]


BAD = {
    "{": "not JSON",
    "[1]": "a list",
    "null": "null",
    '"text"': "a string",
    '{"content": "x"}': "role",
    '{"role": 5, "content": "x"}': "role",
    '{"message": {"role": "user", "content": "x"}, "id": {}}': "id",
    '{"message": {"role": "user", "content": "x"}, "id": "\\ud800"}': "Unicode",
    '{"message": {"role": "user", "content": "x"}, "timestamp": "noon"}': "timestamp",
    '{"message": {"role": "user", "content": "x"}, "timestamp": 1e300}': "timestamp",
    '{"role": "user", "content": NaN}': "content",
    "[" * 100_000: "nested",
}


@pytest.mark.parametrize(("line", "reason"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_line_is_named_and_what_came_before_is_stored(lcm: Lcm, new: Path, line: str, reason: str) -> None:
    answer = lcm("append", *KEY, input="\n".join([*GOOD[:2], "", line, *GOOD[2:]]))
    assert (answer.code, answer.error["code"]) == (2, "bad_message")
    assert answer.error["message"].startswith("Line 4: ")
    assert reason in answer.error["message"]
    details = answer.error["details"]
    assert (details["line"], details["stored"], details["badLines"]) == (4, 2, 1)
    assert "up to line 2 is in the archive (2 new messages)" in details["hint"]
    assert stored(new) == [said(0)["content"], said(1)["content"]]


def test_a_bad_line_of_a_file_is_named_as_the_file_is(
    lcm: Lcm, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chat.jsonl").write_text(f"{GOOD[0]}\nnot json\n", encoding="utf-8")
    error = lcm("append", *KEY, "chat.jsonl").error
    assert error["message"].startswith("chat.jsonl, line 2: ")
    assert "(1 new message)" in error["details"]["hint"]
    assert stored(new) == [said(0)["content"]]


def test_bad_lines_can_be_left_out(lcm: Lcm, new: Path, tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    text = "\n".join(line for pair in zip(GOOD, list(BAD)[:5], strict=True) for line in pair)
    file.write_bytes(text.encode() + b'\n{"role": "user", "content": "\xff"}\n')
    answer = lcm("append", *KEY, "--skip-bad", "--batch", 2, file)
    assert (answer.data["stored"], answer.data["badLines"]) == (5, 6)
    assert answer.data["bad"][0] == {"file": str(file), "line": 2, "reason": answer.data["bad"][0]["reason"]}
    assert "UTF-8" in answer.data["bad"][-1]["reason"]
    assert stored(new) == [said(n)["content"] for n in range(5)]
    shown = lcm("append", *KEY, "--skip-bad", file, "--format", "table").out
    assert "6 lines left out" in shown
    assert "line 2" in " ".join(shown.split())


class Watched(BytesIO):
    """A stream that knows how much was read from it at once."""

    most = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.most = max(self.most, len(line))
        return line


def test_a_line_without_end_is_not_read_into_memory(new: Path) -> None:
    endless = '{"role": "user", "content": "' + "x" * 3_000_000 + '"}'
    stream = Watched("\n".join([GOOD[0], endless, GOOD[1]]).encode())
    intake = BatchAppender(lossless.Session(key="k"), None, 1000, True)
    with lossless.open(new, background=False) as engine:
        intake.run(engine, read_lines(stream, None, longest=1024 * 1024))
    found = intake.data()
    assert (found["stored"], found["badLines"], stream.most) == (2, 1, 1024 * 1024 + 1)
    assert "longer than 1 MB" in found["bad"][0]["reason"]
    assert (found["bad"][0]["line"], stored(new)[1]) == (2, said(1)["content"])


def test_a_key_is_stored_once(lcm: Lcm, new: Path) -> None:
    first = lcm("append", *KEY, "--key", "turn-1", input="\n".join(GOOD))
    again = lcm("append", *KEY, "--key", "turn-1", input="\n".join(GOOD))
    assert (first.data["stored"], again.data["stored"], again.data["replayed"]) == (5, 0, 5)


def test_a_key_means_all_or_nothing(lcm: Lcm, new: Path) -> None:
    too_long = lcm("append", *KEY, "--key", "turn-1", "--batch", 4, input="\n".join(GOOD))
    assert (too_long.code, too_long.error["code"]) == (2, "bad_arguments")
    for bad in ("{", '{"content": "x"}'):
        answer = lcm("append", *KEY, "--key", "turn-1", input="\n".join([*GOOD, bad]))
        assert (answer.code, answer.error["details"]["stored"]) == (2, 0)
        assert "Nothing was stored" in answer.error["details"]["hint"]
    assert lcm("status").data["status"]["messages"]["count"] == 0
    left_out = lcm("append", *KEY, "--key", "turn-1", "--skip-bad", input="\n".join([*GOOD, *BAD]))
    assert left_out.data["stored"] == 5
    assert lcm("append", *KEY, "--key", "turn-1", input="\n".join(GOOD)).data["stored"] == 0


def test_what_is_not_kept_is_said(lcm: Lcm, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = json.dumps({"role": "bashExecution", "content": "x"})
    answer = lcm("append", *KEY, input="\n".join([GOOD[0], note, note]))
    assert (answer.data["stored"], answer.data["skipped"]) == (1, 2)
    assert answer.data["skippedReasons"] == {"role 'bashExecution' is not kept": 2}
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", "k*")
    ignored = lcm("append", *KEY, input=GOOD[1])
    assert (ignored.data["stored"], ignored.data["skippedReasons"]) == (0, {"session excluded": 1})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("append",), 2),
        (("append", *KEY, "no-such-file.jsonl"), 2),
        (("append", *KEY, "."), 2),
        (("append", *KEY, "--batch", 0), 2),
        (("append", *KEY, "--key", ""), 2),
        (("append", "--session-id", "\udcff"), 2),
        (("append", *KEY, "--db", "."), 5),
        (("sync",), 2),
        (("sync", *KEY, "no-such-file.json"), 2),
        (("sync", *KEY, "a.json", "b.json"), 2),
    ],
)
def test_things_done_wrong(lcm: Lcm, new: Path, arguments: tuple[Any, ...], code: int) -> None:
    answer = lcm(*arguments, input=GOOD[0])
    assert answer.code == code
    assert answer.error["message"]
    assert not new.exists()


def test_a_broken_archive_says_how_far_it_came(lcm: Lcm, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, not a database at all" * 50)
    answer = lcm("append", *KEY, "--db", path, input=GOOD[0])
    assert (answer.code, answer.error["code"]) == (5, "not_an_archive")
    assert path.read_text().startswith("these are my notes")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_interrupted_work_says_how_far_it_came(new: Path) -> None:
    command = [sys.executable, "-m", "lossless.cli.main", "append", *KEY, "--batch", "2", "--db", str(new), "--create"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None
        run.stdin.write("\n".join(GOOD) + "\n")
        run.stdin.flush()
        wait_for(lambda: count(new) >= 4)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    failure = json.loads(err)["error"]
    assert (failure["code"], failure["details"]["stored"]) == ("interrupted", 4)
    assert out == ""
    assert stored(new) == [said(n)["content"] for n in range(4)]


def count(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with Archive.open(path, read_only=True) as archive:
            return archive.listings.counts().messages
    except lossless.LosslessError:
        return 0


def test_sync_takes_an_array_or_lines(lcm: Lcm, new: Path) -> None:
    window = [said(n) for n in range(4)]
    first = lcm("sync", *KEY, input="\ufeff \n" + json.dumps(window, indent=1))
    assert first.envelope["command"] == "sync"
    assert (first.data["stored"], first.data["messages"], first.data["cause"]) == (4, 4, None)
    again = lcm("sync", *KEY, input="\n".join(json.dumps(message) for message in window))
    assert (again.data["stored"], again.data["replayed"]) == (0, 4)
    grown = lcm("sync", *KEY, input=json.dumps([*window, {"message": said(4), "id": "e4"}]))
    assert grown.data["stored"] == 1
    other = lcm(
        "sync", *KEY, "--format", "table", input=json.dumps([*window[:3], {"role": "assistant", "content": "no"}])
    )
    assert "left the context" in other.out
    assert stored(new)[-1] == "no"


@pytest.mark.parametrize("window", ["[", "[1]", '[{"content": "x"}]', "{}\n{", '{"role": "user"', "[[]]", "\xff"])
def test_a_window_that_cannot_be_read_is_not_stored_at_all(lcm: Lcm, new: Path, window: str) -> None:
    assert lcm("sync", *KEY, input=json.dumps([said(0)])).code == 0
    answer = lcm("sync", *KEY, input=window.encode("latin-1"))
    assert (answer.code, answer.error["code"]) == (2, "bad_message")
    assert answer.error["details"]["hint"] == "Nothing was stored."
    assert stored(new) == [said(0)["content"]]


def test_what_was_revised_likely_and_open_is_counted(lcm: Lcm, new: Path) -> None:
    """Other words at a row's place, one decided by likeness, and a short word behind an edit."""
    asked = {"role": "user", "content": "Which port does the proxy use?"}
    ok = {"role": "assistant", "content": "ok"}
    lcm("sync", *KEY, input=json.dumps([said(1), asked, ok, said(2)]))
    edited = {"role": "user", "content": "Which port does the gateway use?"}
    found = lcm("sync", *KEY, input=json.dumps([said(1), edited, ok, {"role": "user", "content": "Begin"}])).data
    assert (found["revised"], found["likely"], found["ambiguous"]) == (1, 1, 1)

    entries = [{"message": said(n), "id": f"e{n}"} for n in range(3)]
    lcm("append", "--session-key", "other", input="\n".join(map(json.dumps, entries)))
    entries[1] = {"message": said(3), "id": "e1"}
    again = lcm("append", "--session-key", "other", "--batch", 1, input="\n".join(map(json.dumps, entries))).data
    assert (again["stored"], again["revised"], again["likely"], again["ambiguous"]) == (0, 1, 0, 0)
    entries[1] = {"message": said(5), "id": "e1"}
    told = lcm("append", "--session-key", "other", "--format", "table", input=json.dumps(entries[1])).out
    assert "1 have other words now" in told


def test_a_window_that_fits_nothing_is_quarantined(lcm: Lcm, new: Path) -> None:
    lcm("sync", *KEY, input=json.dumps([said(n) for n in range(3)]))
    flood = json.dumps([{"role": "user", "content": f"stranger {n}"} for n in range(99)])
    answer = lcm("sync", *KEY, input=flood)
    assert (answer.code, answer.data["stored"], answer.data["quarantineId"]) == (0, 99, 2)
    assert "nothing in common" in answer.data["reason"]
    assert "continues what is quarantined" in lcm("sync", *KEY, "--format", "table", input=flood).out
    (waiting,) = lcm("quarantine").items
    assert (waiting["conversationId"], waiting["messages"], waiting["decision"]) == (2, 99, "quarantined")
    assert "quarantined" in lcm("quarantine", "list", "--format", "table").out
    assert [finding["kind"] for finding in lcm("doctor", "--offline").envelope["data"]["findings"]] == ["quarantined"]
    assert lcm("quarantine", "refuse", "2").data["decision"] == "refused"
    assert lcm("status").data["liveness"]["quarantined"] == []
    assert lcm("quarantine", "accept", "2").data["active"] is True
    assert lcm("quarantine").items == []
    assert lcm("quarantine", "accept", "2").error["code"] == "not_found"
    assert lcm("sync", *KEY, input=flood).data["conversationId"] == 2


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_reason(raw: bytes) -> None:
    with suppress(ValueError):
        unwrap(parse(raw))

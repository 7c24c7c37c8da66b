"""`lcm forget` and `lcm verify --absent-from`: the plan first, then for good, then the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from tests.cli.conftest import FERRY, sound, sql

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Lcm

WORD = "quaggahunter"


@pytest.fixture
def secret(archive: Path, lcm: Lcm) -> Path:
    """An archive in which somebody said too much, and a backup of it."""
    with lossless.open(archive, background=False) as engine:
        engine.append(FERRY, [{"role": "user", "content": f"the word is {WORD}, keep it"}])
    lcm("backup").data  # noqa: B018
    return archive


def test_without_apply_nothing_changes(lcm: Lcm, secret: Path) -> None:
    before = secret.read_bytes()
    found = lcm("forget", "the", "word", "is", WORD).data
    assert (found["applied"], found["found"], found["messages"], found["left"]) == (False, True, 1, [])
    assert [backup["messages"] for backup in found["backups"]] == [1]
    assert WORD not in str(found)
    assert secret.read_bytes() == before


def test_a_phrase_is_forgotten_and_the_proof_agrees(lcm: Lcm, secret: Path, tmp_path: Path) -> None:
    phrases = tmp_path / "phrases.txt"
    phrases.write_text(f"{WORD}\n\n")
    there = lcm("verify", "--absent-from", phrases)
    assert there.code == 1
    assert there.envelope["ok"] is False
    assert {trace["phrase"] for trace in there.envelope["data"]["traces"]} == {1}
    assert any(trace["file"].endswith(".bak") for trace in there.envelope["data"]["traces"])
    assert WORD not in there.out
    done = lcm("forget", "--from", phrases, "--apply").data
    assert (done["applied"], done["messages"], len(done["backups"])) == (True, 1, 1)
    assert lcm("verify", "--absent-from", phrases).data["ok"] is True
    assert lcm("verify", "--absent-from", "-", input=f"{WORD}\n").data["found"] == 0
    sound(lcm)
    assert lcm("grep", WORD).data["items"] == []
    assert sql(secret, "SELECT content FROM messages ORDER BY message_id DESC LIMIT 1") == [
        ("the word is [forgotten], keep it",)
    ]
    assert lcm("forget", "--from", phrases).data["found"] is False


def test_a_message_is_forgotten_by_its_id(lcm: Lcm, secret: Path) -> None:
    done = lcm("forget", "msg#1", "msg#2", "--apply").data
    assert (done["messages"], done["emptied"]) == (2, 2)
    assert sql(secret, "SELECT content FROM messages WHERE message_id < 3") == [("[forgotten]",)] * 2
    sound(lcm)


def test_a_session_is_forgotten_by_its_name(lcm: Lcm, secret: Path) -> None:
    done = lcm("forget", "--session", "agent:main:ferry", "--apply").data
    assert done["emptied"] == done["messages"] > 10
    assert sql(secret, "SELECT count(*) FROM messages WHERE content LIKE '%ferries%'") == [(0,)]
    sound(lcm)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Say what to forget"),
        (("msg#1", "word"), "not both"),
        (("ab",), "at least 3 characters"),
        (("   a   ",), "at least 3 characters"),
        (("msg#0",), "no id of a message"),
        (("MSG#",), "no id of a message"),
        (("msg#99999999999999999999",), "no id of a message"),
        (("msg#1", "msg#-2"), "no id of a message"),
        (("[forgotten]",), "cannot be forgotten itself"),
        (("--from", "nowhere.txt"), "cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_refused(lcm: Lcm, secret: Path, arguments: tuple[str, ...], says: str) -> None:
    answer = lcm("forget", *arguments)
    assert answer.code == 2
    assert says in answer.error["message"]


@pytest.mark.parametrize("text", [f"\ufeff{WORD}\r\n", f"  {WORD}\t\n\n", WORD])
def test_marks_and_spaces_around_a_phrase_are_no_part_of_it(lcm: Lcm, secret: Path, tmp_path: Path, text: str) -> None:
    phrases = tmp_path / "phrases.txt"
    phrases.write_bytes(text.encode())
    assert lcm("verify", "--absent-from", phrases).code == 1
    assert lcm("forget", "--from", phrases).data["messages"] == 1
    assert lcm("forget", "--from", "-", input=text).data["messages"] == 1
    assert lcm("forget", f" {WORD} ").data["messages"] == 1
    assert lcm("forget", " msg#1 ").data["messages"] == 1


def test_a_phrase_is_no_pattern(lcm: Lcm, secret: Path) -> None:
    for phrase in ("quagga.*", "[a-z]+", "%quagga%", "quagga*"):
        assert lcm("forget", phrase, "--apply").data["found"] is False
    assert sql(secret, f"SELECT count(*) FROM messages WHERE content LIKE '%{WORD}%'") == [(1,)]


def test_what_is_not_there_is_named(lcm: Lcm, secret: Path) -> None:
    for arguments in (("msg#999",), ("--session", "nobody")):
        answer = lcm("forget", *arguments)
        assert answer.code == 3
        assert "999" in answer.error["message"] or "nobody" in answer.error["message"]


def test_people_see_what_goes_and_what_is_left(lcm: Lcm, secret: Path, tmp_path: Path) -> None:
    phrases = tmp_path / "phrases.txt"
    phrases.write_text(WORD)
    found = lcm("--format", "table", "verify", "--absent-from", phrases)
    assert "messages.content" in found.out
    assert "It was found" in found.out
    assert "--yes does it" in lcm("--format", "table", "forget", WORD).out
    done = lcm("--format", "table", "forget", WORD, "--apply").out
    assert "Forgotten" in done
    assert ".bak" in done
    assert "Nowhere." in lcm("--format", "table", "verify", "--absent-from", phrases).out
    assert "nowhere in the archive" in lcm("--format", "table", "forget", WORD).out

"""Verify: silence is proof, and every offender is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .conftest import sql

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


def test_a_sound_archive(lcm: Lcm, archive: Path) -> None:
    answer = lcm("verify")
    assert answer.envelope["ok"] is True
    assert {name: answer.data[name] for name in ("ok", "messages", "summaries", "errors")} == {
        "ok": True, "messages": 14, "summaries": 3, "errors": 0,
    }  # fmt: skip
    assert lcm("verify", "--format", "table").out.startswith("All is there.")


def test_offenders_are_listed_and_the_exit_code_says_so(lcm: Lcm, archive: Path) -> None:
    sql(
        archive,
        "UPDATE messages SET content = 'forged' WHERE message_id = 3",
        "DELETE FROM context_items WHERE message_id = 12",
    )
    answer = lcm("verify")
    assert (answer.code, answer.err) == (1, "")
    envelope = answer.envelope
    assert (envelope["ok"], envelope["command"], envelope["data"]["ok"]) == (False, "verify", False)
    offenders = {(problem["table"], problem["id"]) for problem in envelope["data"]["problems"]}
    assert {("messages", "3"), ("messages", "12")} <= offenders
    assert envelope["data"]["errors"] >= 2
    shown = lcm("verify", "--format", "table")
    assert shown.code == 1
    assert "error messages 12:" in shown.out


def test_a_long_list_is_cut_and_says_so(lcm: Lcm, archive: Path) -> None:
    sql(archive, "UPDATE messages SET content = 'forged'")
    data = lcm("verify", "--limit", 2).envelope["data"]
    assert len(data["problems"]) == 2
    assert data["errors"] + data["warnings"] > 2
    assert sum(data["byCheck"].values()) == data["errors"] + data["warnings"]
    assert "more; see them with --limit" in lcm("verify", "--limit", 2, "--format", "table").out


@pytest.mark.parametrize(("arguments", "code"), [(("--limit", 0), 2), (("--conversation-id", 1), 2), (("x",), 2)])
def test_things_done_wrong(lcm: Lcm, archive: Path, arguments: tuple[object, ...], code: int) -> None:
    assert lcm("verify", *arguments).code == code


def test_a_damaged_file_is_an_error_of_the_database(lcm: Lcm, archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:4096] + b"\0" * 40_000)
    answer = lcm("verify")
    assert answer.code in (1, 5)
    assert "Traceback" not in answer.err

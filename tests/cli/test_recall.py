"""Recall from the command line: evidence for a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


@pytest.fixture
def told(archive: Path) -> Path:
    with lossless.open(archive, background=False) as engine:
        texts = ("Which berth does the Aurora use?", "Berth 14, since yesterday.")
        engine.append(lossless.Session(key="agent:main:port"), [{"role": "user", "content": text} for text in texts])
    return archive


def test_evidence_for_a_question(lcm: Lcm, told: Path) -> None:
    before = told.read_bytes()
    answer = lcm("recall", "What berth is the Aurora at?")
    assert answer.envelope["command"] == "recall"
    assert [item["id"] for item in answer.data["evidence"]] == [15, 16]
    first = answer.data["evidence"][0]
    assert first["text"] == "Which berth does the Aurora use?"
    assert (first["conversationId"], first["role"], first["reference"], first["summaryId"]) == (
        3,
        "user",
        "msg#15",
        None,
    )
    assert "msg#16 user: Berth 14, since yesterday. [yesterday = " in answer.data["text"]
    assert told.read_bytes() == before


def test_one_conversation_and_so_many_tokens(lcm: Lcm, told: Path) -> None:
    assert lcm("recall", "Aurora", "berth", "--conversation-id", 2).data["evidence"] == []
    assert lcm("recall", "Aurora", "berth").data == lcm("recall", "Aurora berth").data, "quotes are not needed"
    assert len(lcm("recall", "ferries", "--session-key", "agent:main:ferry").data["evidence"]) == 12
    short = lcm("recall", "ferries", "--max-tokens", 120)
    assert 0 < len(short.data["evidence"]) < 8
    assert len(short.data["text"]) <= 480


def test_at_a_terminal(lcm: Lcm, told: Path) -> None:
    shown = lcm("recall", "Where is the Aurora?", "--format", "table").out
    assert "conversation 3" in shown
    assert "#15 user" in shown
    assert "Which berth does the Aurora use?" in shown
    assert "Nothing in scope" in lcm("recall", "zebra", "--format", "table").out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("recall",), 2),
        (("recall", "  "), 2),
        (("recall", "x", "--max-tokens", 0), 2),
        (("recall", "x", "--session-key", "nobody"), 3),
    ],
)
def test_things_done_wrong(lcm: Lcm, archive: Path, arguments: tuple[str, ...], code: int) -> None:
    assert lcm(*arguments).code == code

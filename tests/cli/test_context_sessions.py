"""`lcm pin`, `lcm unpin`, `lcm new`, `lcm reset`: what a person does to a session."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lossless.cli.main import main
from tests.forking import Fork

from .conftest import CRANE, FERRY
from .loop import bytes_of, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", FERRY.key)


def test_pins_stand_in_every_prompt_until_they_are_taken_away(lcm: Lcm, archive: Path) -> None:
    assert lcm("pin", *NAMED).data == {"conversationId": 1, "pinned": None, "items": []}
    assert "There are no pins." in lcm("pin", *NAMED, "--format", "table").out
    first = lcm("pin", *NAMED, "Never print secrets.").data
    second = lcm("pin", *NAMED, "--message", "msg#3").data
    assert (first["pinned"], second["pinned"]) == (1, 2)
    assert [(item["pinId"], item["messageId"], item["preview"]) for item in second["items"]] == [
        (1, None, "Never print secrets."),
        (2, 3, "user says the 2th thing about ferries"),
    ]
    payload = lcm("context", *NAMED, "--as", "openai-chat").out
    assert "Never print secrets." in payload
    assert "user says the 2th thing about ferries" in payload
    assert lcm("context", *NAMED).data["tokensByKind"]["pins and focus"] > 0
    gone = lcm("unpin", 1, *NAMED).data
    assert (gone["unpinned"], [item["pinId"] for item in gone["items"]]) == (1, [2])
    assert "Never print secrets." not in lcm("context", *NAMED, "--as", "openai-chat").out
    table = lcm("unpin", 2, *NAMED, "--format", "table").out
    assert table == "Pin 2 was removed.\n"


def test_listing_pins_changes_nothing(lcm: Lcm, archive: Path) -> None:
    lcm("pin", *NAMED, "Words")
    before = bytes_of(archive)
    assert "Words" in lcm("pin", *NAMED, "--format", "table").out
    assert bytes_of(archive) == before


def test_new_empties_the_context_but_for_deep_summaries(lcm: Lcm, archive: Path) -> None:
    data = lcm("new", *NAMED, "--retain-depth", 1).data
    assert (data["conversationId"], data["messages"], data["summaries"]) == (1, 6, 0)
    assert data["tokensAfter"] == 3
    again = lcm("new", *NAMED, "--retain-depth", 1, "--format", "table").out
    assert again == "Nothing left the context of conversation 1 (3 → 3 tokens).\n"
    assert lcm("new", *NAMED, "--retain-depth", -1).data["messages"] == 0
    everything = lcm("new", *NAMED, "--retain-depth", 5, "--yes", "--format", "table").out
    assert "0 messages, 1 summary left the context and stay in the archive" in everything
    assert lcm("context", *NAMED).data["items"] == []
    assert len(lcm("messages", "list", *NAMED).items) == 12
    assert lcm("verify").data["ok"] is True


def test_reset_closes_and_begins_another(lcm: Lcm, archive: Path) -> None:
    data = lcm("reset", *NAMED).data
    assert (data["closedConversationId"], data["sessionKey"]) == (1, FERRY.key)
    assert data["conversationId"] == 3
    shown = lcm("conversations", "show", "--conversation-id", 1).data["conversation"]
    assert (shown["active"], shown["archiveCause"]) == (False, "manual-reset")
    fresh = lcm("reset", *NAMED).data
    assert (fresh["conversationId"], fresh["closedConversationId"]) == (3, None)
    assert "is fresh and stays" in lcm("reset", *NAMED, "--format", "table").out
    assert "goes on in conversation 4" in lcm("reset", "--session-id", CRANE.id, "--format", "table").out
    assert len(lcm("grep", "ferries").items) > 0


def test_one_of_two_conversations_with_the_same_run_is_reset(lcm: Lcm, archive: Path) -> None:
    with open_engine(archive) as engine:
        for key in ("agent:main:a", "agent:main:b"):
            engine.append(type(FERRY)(key=key, id="run-shared"), [{"role": "user", "content": key}])
    data = lcm("reset", "--conversation-id", 3).data
    assert (data["closedConversationId"], data["sessionKey"]) == (3, "agent:main:a")
    assert lcm("conversations", "show", "--conversation-id", 4).data["conversation"]["active"] is True


@pytest.mark.parametrize(("verb", "question"), [("new", "Empty the context"), ("reset", "Close conversation 1")])
@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_person_is_asked(lcm: Lcm, archive: Path, verb: str, question: str, answer: str) -> None:
    before = bytes_of(archive)
    code, out, err = at_a_terminal([verb, *map(str, NAMED)], answer)
    assert question in err
    assert f"({FERRY.key})" in err
    if answer == "n":
        assert (code, out) == (130, "")
        assert "Nothing was changed." in err
        assert bytes_of(archive) == before
    else:
        assert code == 0
        assert json.loads(out)["command"] == verb


def at_a_terminal(arguments: list[str], typed: str) -> tuple[int, str, str]:
    """Run `lcm` with somebody at its standard input."""
    person, terminal = pytest.importorskip("pty").openpty()

    def child() -> None:
        os.dup2(terminal, 0)
        sys.argv = ["lcm", *arguments]
        main()

    process = Fork(child)
    os.write(person, f"{typed}\n".encode())
    out, err = process.communicate()
    os.close(person)
    os.close(terminal)
    return process.wait(), out, err


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("pin", "words"), 2, "bad_arguments"),
        (("pin", "words", *NAMED, "--message", 3), 2, "bad_arguments"),
        (("pin", " ", *NAMED), 2, "bad_arguments"),
        (("pin", *NAMED, "--message", 99), 3, "not_found"),
        (("pin", *NAMED, "--message", 13), 3, "not_found"),
        (("unpin", *NAMED), 2, "bad_arguments"),
        (("unpin", 9, *NAMED), 3, "not_found"),
        (("new", *NAMED, "--retain-depth", -2), 2, "bad_arguments"),
        (("new", "--session-key", "nobody"), 3, "not_found"),
        (("reset",), 2, "bad_arguments"),
        (("reset", *NAMED, "--db", "nowhere.db"), 3, "not_found"),
    ],
)
def test_things_done_wrong(lcm: Lcm, archive: Path, arguments: tuple[Any, ...], code: int, name: str) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (code, name)
    assert not os.path.exists("nowhere.db")

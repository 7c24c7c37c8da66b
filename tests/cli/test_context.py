"""`lcm context`: what the model sees, as a table, as JSON, and as the payload itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless.context.render import RECALL_POLICY
from tests.built import built

from .conftest import sql
from .loop import BUDGET, CHAT, LONG, OTHER, bytes_of, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

FORMATS = ("openai-chat", "openai-responses", "anthropic", "openclaw")
NAMED = ("--session-key", LONG.key)


@pytest.fixture
def folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A long conversation that begins with a system prompt and was folded."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    return built(path, _build_folded)


def _build_folded(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(LONG, [{"role": "system", "content": "You sell tickets."}, *CHAT])
        engine.compact(LONG, budget=BUDGET, force=True)


def test_the_data_is_that_of_the_prompt(lcm: Lcm, folded: Path) -> None:
    before = bytes_of(folded)
    data = lcm("context", *NAMED, "--budget", 6_000).data
    with open_engine(folded) as engine:
        prompt = engine.assemble(LONG, budget=6_000, record=False)
    assert data["conversationId"] == 1
    assert (data["sessionKey"], data["sessionId"]) == (LONG.key, LONG.id)
    assert (data["budget"], data["tokens"], data["fits"]) == (6_000, prompt.tokens, True)
    assert data["stored"]["threshold"] == 4_500
    assert {share["name"]: share["share"] for share in data["shares"]} == dict(prompt.receipt.shares)
    assert data["shares"][0] == {
        "name": "protected tail", "share": prompt.receipt.shares["protected tail"], "aimLow": 0.25, "aimHigh": 0.3,
    }  # fmt: skip
    assert data["tokensByKind"] == dict(prompt.receipt.tokens_by_kind)
    assert bytes_of(folded) == before


def test_neighbouring_messages_are_counted_together_unless_all_are_asked_for(lcm: Lcm, folded: Path) -> None:
    runs = lcm("context", *NAMED).data["items"]
    every = lcm("context", *NAMED, "--items").data["items"]
    assert (runs[0]["type"], runs[-1]["type"]) == ("message", "messages")
    assert {item["type"] for item in every} == {"message", "summary"}
    assert sum(item.get("count", 1) for item in runs) == len(every)
    assert sum(item["tokenCount"] for item in runs) == sum(item["tokenCount"] for item in every)
    last = runs[-1]
    assert (last["lastId"], last["form"]) == (every[-1]["id"], "verbatim")
    assert sum(last["byRole"].values()) == last["count"]
    assert [item["id"] for item in every] == [item["id"] for item in sorted(every, key=_place)]


def _place(item: dict[str, Any]) -> tuple[int, str]:
    """System prompts, then summaries by time, then messages."""
    if item["type"] == "summary":
        return 1, item["earliestAt"]
    return (0 if item["role"] == "system" else 2), f"{item['messageId']:09}"


def test_what_does_not_fit_is_named_with_its_reason(lcm: Lcm, folded: Path) -> None:
    with open_engine(folded) as engine:
        engine.append(LONG, [{**message, "content": f"again: {message['content']}"} for message in CHAT])
    data = lcm("context", *NAMED, "--budget", 1_500).data
    assert data["leftOut"]
    assert {item["reason"] for item in data["leftOut"]} <= {"over budget", "the fresh tail alone is over budget"}
    with open_engine(folded) as engine:
        stored = engine.archive.context.items(1)
    shown = sum(item.get("count", 1) for item in data["items"])
    assert shown + len(data["leftOut"]) + data["notRead"] == len(stored) == data["stored"]["items"]
    assert data["notRead"] > 0
    assert data["stored"]["isOver"] is True


@pytest.mark.parametrize("format", FORMATS)
def test_the_payload_is_what_a_host_would_send(lcm: Lcm, folded: Path, format: str) -> None:
    answer = lcm("context", *NAMED, "--budget", 6_000, "--as", format)
    assert answer.code == 0, answer.err
    payload = json.loads(answer.out)
    assert payload == json.loads(lcm("context", *NAMED, "--budget", 6_000, "--format", format).out)
    with open_engine(folded) as engine:
        wire = json.loads(json.dumps(engine.assemble(LONG, budget=6_000, format=format).messages))
    system = f"You sell tickets.\n\n{RECALL_POLICY}"
    if format == "openclaw":
        assert payload["systemPromptAddition"] == RECALL_POLICY
        assert payload["messages"] == wire
    elif format == "anthropic":
        assert payload == {"system": system, "messages": wire}
        assert {message["role"] for message in payload["messages"]} == {"user", "assistant"}
    elif format == "openai-responses":
        assert payload == {"instructions": system, "input": wire[1:]}
    else:
        assert payload == {"messages": [{"role": "system", "content": system}, *wire[1:]]}


def test_a_prompt_brings_its_quotes(lcm: Lcm, folded: Path) -> None:
    with open_engine(folded) as engine:
        engine.append(OTHER, [{"role": "user", "content": "The sandbox merchant is QXR-4471-ZED."}, *CHAT])
        engine.new(OTHER, retain_depth=9)
        engine.append(OTHER, [{"role": "user", "content": "hello"}])
    named = ("--session-key", OTHER.key, "--prompt", "Who was QXR-4471-ZED again?")
    assert "cue" not in lcm("context", *named[:2]).data["tokensByKind"]
    assert lcm("context", *named).data["tokensByKind"]["cue"] > 0
    assert "The sandbox merchant is QXR-4471-ZED." in lcm("context", *named, "--as", "openai-chat").out


def test_a_conversation_is_found_by_number_key_and_run(lcm: Lcm, folded: Path) -> None:
    with open_engine(folded) as engine:
        engine.reset(LONG)
    assert lcm("context", "--conversation-id", 1).data["active"] is False
    assert lcm("context", "--session-key", LONG.key).data["conversationId"] == 2
    assert lcm("context", "--session-id", LONG.id).data["conversationId"] == 2
    assert lcm("context", "--session-key", LONG.key, "--session-id", "x").data["items"] == []


@pytest.mark.parametrize("arguments", [("--budget", 6_000), ("--budget", 6_000, "--items"), ("--budget", 900)])
def test_people_see_the_context(lcm: Lcm, folded: Path, arguments: tuple[object, ...]) -> None:
    out = lcm("context", *NAMED, *arguments, "--format", "table").out
    for word in ("Context of conversation 1", "━", "Protected tail", "target 25–30 %", "compacts at"):
        assert word in out
    assert ("(shortened)" in out) == (arguments[1] == 900)


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("context",), 2, "bad_arguments"),
        (("context", "--session-key", "k", "--conversation-id", 1), 2, "bad_arguments"),
        (("context", "--session-id", "k", "--conversation-id", 1), 2, "bad_arguments"),
        (("context", "--session-key", "nobody"), 3, "not_found"),
        (("context", "--session-id", "nobody"), 3, "not_found"),
        (("context", "--conversation-id", 9), 3, "not_found"),
        (("context", "--conversation-id", 1, "--budget", 0), 2, "bad_arguments"),
        (("context", "--conversation-id", 1, "--as", "xml"), 2, "bad_arguments"),
        (("context", "--conversation-id", 1, "--format", "xml"), 2, "bad_arguments"),
        (("--format", "anthropic", "status"), 2, "bad_arguments"),
        (("--db", "nowhere.db", "context", "--conversation-id", 1), 3, "not_found"),
    ],
)
def test_things_done_wrong(lcm: Lcm, folded: Path, arguments: tuple[Any, ...], code: int, name: str) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (code, name)


def test_the_global_format_stands_before_the_command_too(lcm: Lcm, folded: Path) -> None:
    assert lcm("--format", "table", "context", *NAMED).out.startswith("Context of conversation")
    assert lcm("--format", "json", "context", *NAMED).data["conversationId"] == 1


def test_json_is_asked_for_as_of_any_command(lcm: Lcm, folded: Path) -> None:
    for arguments in (("context", *NAMED, "--json"), ("--json", "context", *NAMED)):
        assert lcm(*arguments).data["conversationId"] == 1
    assert "--json" in lcm("context", "--help").out


def test_pins_and_the_focus_brief_stand_before_the_rest(lcm: Lcm, folded: Path) -> None:
    lcm("pin", "Never print secrets.", *NAMED)
    sql(
        folded,
        "INSERT INTO focus_briefs (brief_id, conversation_id, prompt, content, status, token_count,"
        " covered_message_seq) VALUES ('focus_1', 1, 'which ferry?', 'the last one', 'active', 7, 9999)",
    )
    pin, brief, *_ = lcm("context", *NAMED).data["items"]
    assert (pin["id"], pin["type"], pin["preview"]) == ("pin_1", "pin", "Never print secrets.")
    assert (brief["id"], brief["type"], brief["tokenCount"]) == ("focus_1", "focus", 7)
    table = lcm("context", *NAMED, "--format", "table").out
    assert "focus" in table
    assert "focus_1 which ferry?" in table


def test_an_item_that_is_gone_is_told_and_no_riddle(lcm: Lcm, folded: Path) -> None:
    with open_engine(folded) as engine:
        (gone,) = engine.archive.database.rows("SELECT max(summary_id) FROM context_items")
    sql(folded, f"PRAGMA foreign_keys = OFF; DELETE FROM summaries WHERE summary_id = '{gone[0]}'")
    answer = lcm("context", *NAMED)
    assert (answer.code, answer.error["code"]) == (5, "corrupt")
    assert gone[0] in answer.error["message"]
    assert "lcm doctor" in answer.error["message"]
    assert lcm("doctor", "--offline").code == 1

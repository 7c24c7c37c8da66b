"""The table of tools: schemas, arguments, results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.files.vault import Vault
from lossless.model.context import ContextItem, MessageItem, NewSummary, SummaryItem
from lossless.model.messages import StoredFile
from lossless.recall import scope
from lossless.recall.results import MAX_RESULT_CHARS
from lossless.recall.scope import NO_CONVERSATION, Caller
from lossless.recall.tools import (
    ALL_TOOLS,
    TOOLS,
    TOOLS_BY_NAME,
    Toolbox,
    anthropic_tools,
    openai_tools,
)
from lossless.store.files import LargeFileRows
from lossless.testing.strategies import hostile_text, json_values
from scripts.tools_page import main, tools_page

from .archives import MAIN, NOW, OTHER, folded, toolbox

ROOT = Path(__file__).parents[2]
NAMES = ["lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query", "lcm_recall", "lcm_recent"]


def call(name: str, caller: Caller | None = None, **args: Any) -> dict[str, Any]:
    """The details of a call that must work."""
    result = toolbox(folded().archive).call(name, args, caller or Caller(MAIN))
    assert not result.is_error, result.text
    assert result.content == [{"type": "text", "text": result.text}]
    return result.details


def error(name: str, caller: Caller | None = None, **args: Any) -> dict[str, Any]:
    """The JSON of a call that must fail."""
    result = toolbox(folded().archive).call(name, args, caller or Caller(MAIN))
    assert result.is_error
    assert json.loads(result.text) == result.details
    assert result.details.keys() <= {"error", "hint", "errorCode"}
    return result.details


# --- schemas -------------------------------------------------------------------------------------------


def test_schemas_of_both_kinds_come_from_the_table() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    for tool, openai, anthropic in zip(TOOLS, openai_tools(), anthropic_tools(), strict=True):
        assert openai["function"]["parameters"] == anthropic["input_schema"] == tool.schema
        assert openai["function"]["name"] == anthropic["name"] == tool.name
        assert tool.schema["type"] == "object"
        assert set(tool.schema["required"]) <= set(tool.schema["properties"])
    json.dumps([openai_tools(), anthropic_tools()])


@pytest.mark.parametrize(
    ("tool", "names", "required"),
    [
        (
            "lcm_grep",
            "pattern mode scope fileIds conversationId allConversations since before limit sort cursor",
            ["pattern"],
        ),
        (
            "lcm_describe",
            "id conversationId allConversations tokenCap expandFile expandFileMaxBytes startLine endLine cursor",
            ["id"],
        ),
        (
            "lcm_expand",
            "summaryIds query maxDepth tokenCap includeMessages around conversationId allConversations cursor",
            [],
        ),
        (
            "lcm_expand_query",
            "prompt query summaryIds maxTokens tokenCap conversationId allConversations timeoutMs",
            ["prompt", "timeoutMs"],
        ),
    ],
)
def test_tools_take_what_agents_know(tool: str, names: str, required: list[str]) -> None:
    schema = TOOLS_BY_NAME[tool].schema
    assert list(schema["properties"]) == names.split()
    assert schema["required"] == required


def test_defaults_are_those_that_agents_know() -> None:
    grep, describe = TOOLS_BY_NAME["lcm_grep"].schema["properties"], TOOLS_BY_NAME["lcm_describe"].schema["properties"]
    assert [grep[name]["default"] for name in ("mode", "scope", "limit", "sort")] == ["regex", "both", 50, "recency"]
    assert describe["expandFileMaxBytes"] | {"description": ""} == {
        "type": "integer", "description": "", "minimum": 1024, "maximum": 512_000, "default": 32_768,
    }  # fmt: skip
    assert TOOLS_BY_NAME["lcm_expand"].schema["properties"]["maxDepth"]["default"] == 3
    assert TOOLS_BY_NAME["lcm_expand_query"].schema["properties"]["maxTokens"]["default"] == 2000


def test_the_page_is_made_from_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reference" / "tools.md"
    assert main(["--check", str(file)]) == 1
    assert main([str(file)]) == 0
    assert main(["--check", str(file)]) == 0
    assert main([]) == 2
    assert "out of date" in capsys.readouterr().err
    assert (
        file.read_text(encoding="utf-8")
        == tools_page()
        == (ROOT / "docs/reference/tools.md").read_text(encoding="utf-8")
    )
    assert all(f"## `{name}`" in tools_page() for name in NAMES)


# --- what they return -----------------------------------------------------------------------------------


def test_grep_gives_places_that_can_be_opened() -> None:
    found = call("lcm_grep", pattern="advisory lock", mode="full_text", sort="relevance", limit=10)
    assert found["messageCount"] + found["summaryCount"] == len(found["matches"]) <= 20
    for match in found["matches"]:
        assert {"id", "type", "snippet", "conversationId", "createdAt"} <= match.keys()
        reference = match["id"] if match["type"] == "summary" else f"msg#{match['id']}"
        if match["type"] == "summary":
            assert match["summaryId"] == match["id"]
            assert match["kind"] == ("condensed" if match["depth"] else "leaf")
        assert call("lcm_describe", id=reference)["id"] == reference


def test_grep_goes_on_with_a_cursor() -> None:
    first = call("lcm_grep", pattern="pier", limit=3, scope="messages")
    second = call("lcm_grep", pattern="pier", limit=3, scope="messages", cursor=first["cursor"])
    ids = [match["id"] for match in (*first["matches"], *second["matches"])]
    assert len(ids) == len(set(ids)) == 6


def test_limits_are_clamped() -> None:
    assert len(call("lcm_grep", pattern=".", limit=0)["matches"]) == 1
    assert len(call("lcm_grep", pattern=".", limit=10**9, scope="messages")["matches"]) == 200


def test_describe_and_expand_lead_down_to_the_words() -> None:
    kept = folded()
    top = call("lcm_describe", id=kept.top)
    assert top["type"] == "summary"
    branch = top["manifest"]["nodes"][-1]["summaryId"]
    opened = call("lcm_expand", summaryIds=[branch], tokenCap=500)
    assert opened["totalTokens"] <= 500
    message = call("lcm_describe", id=opened["pieces"][0]["id"])
    assert message["message"]["summaryId"] == branch
    rest = call("lcm_expand", cursor=opened["cursor"])
    assert not set(opened["citedIds"]) & set(rest["citedIds"])
    near = call("lcm_expand", around="msg#12", token_cap="300")
    assert "msg#12" in near["citedIds"]


def test_expand_by_words() -> None:
    found = call("lcm_expand", query="advisory lock", maxDepth=1, tokenCap=800)
    assert 0 < found["totalTokens"] <= 800
    assert call("lcm_expand", query="zxqwv")["citedIds"] == []


def test_recall_and_answer() -> None:
    evidence = call("lcm_recall", question="Which advisory lock do we take?", maxTokens=500)["evidence"]
    assert any("pg_advisory_xact_lock" in item["text"] for item in evidence)
    assert call("lcm_describe", id=evidence[0]["id"])["id"] == evidence[0]["id"]
    answer = call("lcm_expand_query", prompt="Which lock?", query="advisory lock")
    assert answer["strategy"] == "evidence"


def test_a_stale_key_is_mentioned() -> None:
    stale = Caller(lossless.Session(key="agent:main:main", id="run-2"))
    result = toolbox(folded().archive).call("lcm_describe", {"id": "msg#241"}, stale)
    assert not result.is_error
    assert result.text.startswith("Note: The session key 'agent:main:main'")
    assert "warning" in result.details


def test_stored_files_are_shown(engine: lossless.Engine, tmp_path: Path) -> None:
    vault = Vault(tmp_path / "files")
    report = engine.append(MAIN, [{"role": "user", "content": "see the file"}])
    assert report.conversation_id
    data = ("0123456789\n" * 10_000).encode()
    id_ = "file_0123456789abcdef"
    place = vault.write(report.conversation_id, id_, "txt", data)
    row = StoredFile(id_, report.conversation_id, "a.txt", "text/plain", len(data), None, str(place), "Digits.", NOW)
    with engine.archive.writing():
        LargeFileRows(engine.archive.database).add([row])
    box = Toolbox(engine.archive, vault=vault)
    whole, cursor = "", None
    while True:
        found = box.call("lcm_describe", {"id": id_, "expandFileMaxBytes": 512_000, "cursor": cursor}, Caller(MAIN))
        assert not found.is_error
        assert len(found.text) <= MAX_RESULT_CHARS
        whole += found.text.split("```text\n")[1].split("\n```")[0] + "\n"
        cursor = found.details["cursor"]
        if cursor is None:
            break
    assert whole.encode() == data
    lines = box.call("lcm_describe", {"id": id_, "startLine": 3, "endLine": 4}, Caller(MAIN))
    assert "```text\n0123456789\n0123456789\n```" in lines.text


# --- who may expand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "has_subagents", "allowed"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("allow", True, True),
        ("refuse", False, False),
    ],
)
def test_main_agents_expand_where_the_host_has_no_sub_agents(rule: Any, has_subagents: bool, allowed: bool) -> None:
    kept = folded()
    box = toolbox(kept.archive, settings=lossless.Settings(expand_for_main_agents=rule))
    result = box.call("lcm_expand", {"summaryIds": [kept.top]}, Caller(MAIN, host_has_subagents=has_subagents))
    assert result.is_error is not allowed
    assert allowed or json.loads(result.text)["errorCode"] == "SUBAGENTS_ONLY"


def test_a_sub_agent_expands_within_its_grant() -> None:
    kept = folded()
    child = lossless.Session(key="agent:main:subagent:t")
    conversations = (kept.conversation_id,)
    # others look for what MAIN has issued
    grant = scope.issue_grant(kept.archive, "main", child.name, NOW, conversations, token_cap=400)
    caller = Caller(child, host_has_subagents=True)
    found = call("lcm_expand", caller, summaryIds=[kept.leaves[0]])
    stored = kept.archive.guards.grant(grant.id)
    assert stored
    assert stored.tokens_used == found["totalTokens"] <= 400
    foreign = f"msg#{kept.archive.messages.newest_id(kept.other_id)}"
    refused = error("lcm_describe", caller, id=foreign)
    assert refused["error"] == f"Not found in the delegated conversation scope: {foreign}"
    assert "hint" not in refused
    assert error("lcm_grep", caller, pattern="x", conversationId=kept.other_id)["errorCode"] == "grant"


# --- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("lcm_grep", {}, "pattern is required"),
        ("lcm_grep", {"pattern": "  "}, "pattern is required"),
        ("lcm_grep", {"pattern": "x", "mode": "fuzzy"}, "mode must be one of regex, full_text"),
        ("lcm_grep", {"pattern": "x", "limit": "many"}, "limit must be a whole number"),
        ("lcm_grep", {"pattern": "x", "since": "yesterday"}, "since must be a time"),
        ("lcm_grep", {"pattern": "x", "since": "2026-02-01", "before": "2026-01-01"}, "since must be earlier"),
        ("lcm_grep", {"pattern": "x", "fileIds": ["file_1"]}, "fileIds is only for"),
        ("lcm_grep", {"pattern": "("}, "cannot be used"),
        ("lcm_grep", {"pattern": "x", "conversationId": 10**30}, "conversationId must be"),
        ("lcm_grep", {"pattern": "x", "colour": 1}, "unknown argument 'colour'"),
        ("lcm_describe", {"id": "sum_1 sum_2"}, "one id at a time"),
        ("lcm_describe", {"id": "sum_1", "tokenCap": 0}, "tokenCap must be at least 1"),
        ("lcm_describe", {"id": "sum_1", "expandFile": "maybe"}, "expandFile must be true or false"),
        ("lcm_expand", {}, "nothing to expand"),
        ("lcm_expand", {"summaryIds": [1]}, "summaryIds must be a list of texts"),
        ("lcm_expand", {"around": "sum_1"}, "around must be a message"),
        ("lcm_expand_query", {"prompt": "?"}, "pass query, summaryIds or both"),
        ("lcm_recall", {"question": ""}, "question is required"),
    ],
)
def test_wrong_arguments_are_explained(name: str, args: dict[str, Any], reason: str) -> None:
    assert reason in error(name, **args)["error"]


def test_other_refusals() -> None:
    assert error("lcm_describe", Caller(OTHER), id="msg#1")["hint"].startswith("It may be in another conversation")
    assert error("lcm_grep", Caller(), pattern="x")["error"] == NO_CONVERSATION
    box = toolbox(folded().archive)
    assert "there is no tool 'lcm_delete'" in box.call("lcm_delete").text
    for args in ("not json", [1], 7, '"text"', "{" * 5000):
        assert box.call("lcm_grep", args, Caller(MAIN)).is_error
    assert not box.call("lcm_grep", '{"pattern": "pier"}', Caller(MAIN)).is_error


def test_arguments_as_models_write_them() -> None:
    kept = folded()
    loose = call(
        "lcm_expand", summary_ids=kept.top, max_depth="2", include_messages="false", tokenCap=900.0, query=None
    )
    exact = call("lcm_expand", summaryIds=[kept.top], maxDepth=2, includeMessages=False, tokenCap=900)
    assert loose["citedIds"] == exact["citedIds"]
    assert call("lcm_expand", summaryIds=json.dumps([kept.top]))["expandedIds"] == [kept.top]


_CALLERS = [Caller(MAIN), Caller(MAIN, host_has_subagents=True), Caller(), Caller(grant_id="grant_x")]
_CALLERS += [Caller(lossless.Session(key="agent:main:subagent:y")), Caller(lossless.Session(id="nobody"))]
_ODD = json_values() | hostile_text() | st.sampled_from(["msg#1", "1", "sum_1", "all", 1, -1, 10**40, 1e308, True, []])


@settings(max_examples=50)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_any_arguments_give_a_text(name: str, data: st.DataObject) -> None:
    names = [parameter.name for parameter in TOOLS_BY_NAME[name].parameters]
    args = data.draw(st.dictionaries(st.sampled_from(names) | hostile_text(1), _ODD, max_size=4) | _ODD)
    result = toolbox(folded().archive).call(name, args, data.draw(st.sampled_from(_CALLERS)))
    assert 0 < len(result.text) <= MAX_RESULT_CHARS
    result.text.encode()
    json.dumps(result.details)
    if result.is_error:
        assert "error" in json.loads(result.text)


def test_long_results_are_cut_where_they_go_on(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        engine.append(MAIN, [{"role": "user", "content": f"{n} " + "pier " * 9_000} for n in range(4)])
        box = toolbox(engine.archive)
        args: dict[str, Any] = {"prompt": "x", "query": "pier", "maxTokens": 100_000, "tokenCap": 90_000}
        answer = box.call("lcm_expand_query", args, Caller(MAIN))
        assert len(answer.text) <= MAX_RESULT_CHARS
        assert json.loads(answer.text)["answer"]
        for name, args in (("lcm_describe", {"id": "msg#1"}), ("lcm_expand", {"around": 2, "tokenCap": 10**6})):
            result = box.call(name, args, Caller(MAIN))
            assert len(result.text) <= MAX_RESULT_CHARS
            assert result.details["cursor"] in result.text


def test_a_long_summary_is_cut_where_it_goes_on(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        report = engine.append(MAIN, [{"role": "user", "content": "x" * 400_000}])
        archive = engine.archive
        assert report.conversation_id
        layers: list[tuple[str, int, list[ContextItem]]] = [("sum_1", 0, [MessageItem(0, 1, "user", 1, 1)])]
        layers += [(f"sum_{n}", 1, [SummaryItem(0, "sum_1", 0, 1)]) for n in range(2, 121)]
        layers += [("sum_999", 2, [SummaryItem(0, f"sum_{n}", 1, 1) for n in range(2, 121)])]
        with archive.writing():
            for id_, depth, sources in layers:
                new = NewSummary(id_, depth, f"{id_} says " + "word " * 9_000, 9_000, "m", ("file_1",) * 99)
                archive.summaries.insert(report.conversation_id, sources, new, NOW)
        result = toolbox(archive).call("lcm_describe", {"id": "sum_999"}, Caller(MAIN))
        assert len(result.text) <= MAX_RESULT_CHARS
        assert f'cursor="{result.details["cursor"]}")' in result.text
        args = {"id": "sum_999", "cursor": result.details["cursor"]}
        rest = toolbox(archive).call("lcm_describe", args, Caller(MAIN))
        assert rest.text.split("\ncontent\n")[1].startswith("word ")


# --- lcm_status ---------------------------------------------------------------------------------------


def test_the_status_stands_in_the_table_but_beside_no_conversation() -> None:
    assert [*NAMES, "lcm_status"] == [tool.name for tool in ALL_TOOLS] == list(TOOLS_BY_NAME)
    box = toolbox(folded().archive)
    assert box.call("lcm_status", {"limit": 1}, Caller(MAIN)).text.startswith("Kept: ")
    refused = box.call("lcm_status", {}, Caller(lossless.Session(key="agent:main:subagent:x")))
    assert "not for sub-agents" in refused.details["error"]

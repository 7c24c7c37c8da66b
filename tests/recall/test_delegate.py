"""What a reader may say, and what it may not: replies, citations, a host's own sub-agents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.recall.answer import MISSING_ID_MARK
from lossless.recall.delegate import (
    DelegateError,
    DelegateReply,
    DelegateTask,
    find_json_objects,
    parse_reply,
)
from lossless.recall.scope import Caller
from lossless.testing import Scripted
from lossless.testing.strategies import hostile_text, json_values

from .archives import Folded, fill, folded, toolbox
from .asking import ask, box_with, final, no_grant_is_left


@pytest.fixture
def own(path: str) -> Folded:
    """An archive that a test may write to."""
    return fill(str(path), 120)


# --- citations -----------------------------------------------------------------------------------------


def test_ids_that_a_model_made_up_are_dropped_and_marked() -> None:
    kept = folded()
    made_up = "sum_feedfacefeedface"
    answer = f"It is 11 minutes (msg#12), see {made_up} and {kept.leaves[0]}."
    foreign = f"msg#{kept.archive.messages.newest_id(kept.other_id)}"
    model = Scripted(final(answer, (made_up, "msg#12", "msg#999999", foreign, "nonsense")), name="liar")
    details = ask(box_with(kept.archive, model))
    assert details["citedIds"] == ["msg#12", kept.leaves[0]]
    assert details["answer"] == f"It is 11 minutes (msg#12), see {made_up}{MISSING_ID_MARK} and {kept.leaves[0]}."
    assert details["droppedIds"] == [made_up, "msg#999999", foreign]


@settings(max_examples=12)
@given(cited=st.lists(st.integers(-5, 300).map(lambda n: f"msg#{n}") | hostile_text(2)), text=hostile_text())
def test_whatever_a_model_cites_cited_ids_exist(cited: list[str], text: str) -> None:
    kept = folded()
    model = Scripted(then=final(f"x {text}", tuple(cited)), name="any")
    details = ask(box_with(kept.archive, model))
    known = {f"msg#{n}" for n in range(1, 241)} | set(kept.leaves) | set(kept.condensed)
    assert set(details["citedIds"]) <= known
    assert len(set(details["citedIds"])) == len(details["citedIds"])


@given(json_values() | hostile_text())
def test_any_last_words_are_a_reply_or_a_failure(words: Any) -> None:
    text = words if isinstance(words, str) else json.dumps(words)
    for reply in (
        parse_reply(text),
        parse_reply(f"```json\n{text}\n```"),
        parse_reply(f'{{"answer": {json.dumps(text)}}}'),
    ):
        assert isinstance(reply, DelegateReply | DelegateError)


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "yes", "citedIds": ["sum_1"], "truncated": true}',
        'Here:\n```json\n{"answer": "yes", "citedIds": ["[LCM File: sum_1 | x]"], "truncated": true}\n```\nBye {}',
        '{"note": 1} and {"answer": " yes ", "citedIds": ["sum_1", "sum_1", 7], "truncated": true, "extra": {}}',
    ],
)
def test_replies_as_models_write_them(text: str) -> None:
    assert parse_reply(text) == DelegateReply("yes", ("sum_1",), truncated=True)


def test_deep_or_broken_json_is_no_object() -> None:
    assert find_json_objects("{" * 100_000) == []
    assert len(find_json_objects('{"a": ' * 5_000 + "1" + "}" * 5_000)) <= 1
    assert find_json_objects("[1, 2") == []


# --- a host's own sub-agents ---------------------------------------------------------------------------


def test_a_host_brings_its_own_reader(own: Folded) -> None:
    box = toolbox(own.archive)

    def delegate(task: DelegateTask) -> str:
        reader = Caller(lossless.Session(key=task.session_key), host_has_subagents=True)
        read = box.call("lcm_expand", {"summaryIds": [own.leaves[0]], "includeMessages": True}, reader)
        assert not read.is_error, read.text
        assert task.session_key.startswith("agent:main:subagent:")
        assert 0 < task.seconds <= 200
        return (
            "```json\n" + json.dumps({"answer": "11 minutes", "citedIds": ["msg#12"], "totalSourceTokens": 3}) + "\n```"
        )

    details = ask(replace(box, delegate=delegate))
    assert (details["answer"], details["citedIds"], details["strategy"]) == ("11 minutes", ["msg#12"], "delegate")
    assert details["totalSourceTokens"] > 100
    no_grant_is_left(own.archive)


@pytest.mark.parametrize(
    ("error", "code", "phase"),
    [
        (DelegateError("no slot", "spawn"), "DELEGATED_EXPANSION_SPAWN_FAILED", "spawn"),
        (DelegateError("it broke"), "DELEGATED_EXPANSION_WAIT_FAILED", "wait"),
        (KeyError("secret"), "DELEGATED_EXPANSION_WAIT_FAILED", "wait"),
        (TimeoutError(), "DELEGATED_EXPANSION_TIMEOUT", "wait"),
        (None, "DELEGATED_EXPANSION_REPLY_MISSING", "read_reply"),
    ],
)
def test_how_a_host_may_fail(own: Folded, error: Exception | None, code: str, phase: str) -> None:
    def delegate(task: DelegateTask) -> str | None:
        if error is not None:
            raise error
        return None

    details = ask(toolbox(own.archive, delegate=delegate))
    (part,) = details["conversationBreakdown"]
    assert (details["errorCode"], part["phase"]) == (code, phase)
    assert "secret" not in json.dumps(details)
    no_grant_is_left(own.archive)

"""What asks is no evidence for its own answer: by its id, so that the same question of an earlier turn stays found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.recall.evidence import question_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

TALK = lossless.Session(key="agent:main:talk")
QUESTION = "Which berth does the night ferry use?"
CALL = {"name": "lcm_recall", "arguments": json.dumps({"question": QUESTION})}


@pytest.fixture
def engine() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(TALK, [user(QUESTION), assistant("The night ferry uses berth 7.")])
        yield engine


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def recalled(engine: lossless.Engine, question: str = QUESTION) -> list[str]:
    found = engine.tools.run("lcm_recall", {"question": question}, session=TALK)
    return [item["id"] for item in found.details["evidence"]]


def test_the_same_question_asked_again_is_found_where_it_was_asked_before(engine: lossless.Engine) -> None:
    engine.append(TALK, [user(QUESTION)])
    assert set(recalled(engine)) == {"msg#1", "msg#2"}
    assert {item.id for item in engine.recall(QUESTION, session=TALK).evidence} == {1, 2}
    assert {item.id for item in engine.recall(QUESTION).evidence} == {1, 2}


def test_an_agent_that_asks_in_other_words_does_not_find_its_own_task(engine: lossless.Engine) -> None:
    engine.append(TALK, [user(f"Tell me: {QUESTION} And say it in French.")])
    call = {"id": "call_0123456789ab", "type": "function", "function": CALL}
    calling = assistant("", tool_calls=[call])
    engine.append(TALK, [calling])
    assert question_messages(engine.archive, TALK) == {3, 4}
    assert set(recalled(engine, "night ferry berth")) == {"msg#1", "msg#2"}


def test_what_was_asked_before_a_finished_answer_is_evidence(engine: lossless.Engine) -> None:
    assert question_messages(engine.archive, TALK) == frozenset()
    assert set(recalled(engine, "ferry berth")) == {"msg#1", "msg#2"}
    assert question_messages(engine.archive, lossless.Session(key="unknown")) == frozenset()


@pytest.mark.parametrize("prompt", [QUESTION, "night ferry berth"])
def test_an_answer_is_not_made_of_its_question(engine: lossless.Engine, prompt: str) -> None:
    engine.append(TALK, [user(QUESTION)])
    found = engine.tools.run("lcm_expand_query", {"prompt": prompt, "query": prompt}, session=TALK).details
    assert found["citedIds"]
    assert "msg#3" not in json.dumps(found)
    outside = engine.answer(QUESTION, session=TALK).details
    assert "msg#2" in outside["citedIds"]
    assert "msg#3" not in json.dumps(outside)

"""Evidence in prompts: the same bytes until the next fold, within its caps, never stored, never the question itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.context.run import EVIDENCE_SHARE
from lossless.errors import BadInput
from lossless.formats.synthetic import EVIDENCE_OPEN
from lossless.model.tokens import estimate_tokens
from lossless.store.state import MOST_RECEIPTS
from tests.compaction.providers import FORMATS, complaints

if TYPE_CHECKING:
    from lossless import Engine

Raw = dict[str, Any]
SESSION = lossless.Session(key="agent:main:main")
BUDGET = 8_000
TOPICS = ("berth harbour", "engine diesel", "lantern brass", "compass needle", "anchor chain", "rudder oak")
SMALL_TALK = (Path(__file__).parents[1] / "recall/small_talk.txt").read_text(encoding="utf-8").splitlines()


def user(text: str) -> Raw:
    return {"role": "user", "content": text}


def assistant(text: str) -> Raw:
    return {"role": "assistant", "content": text}


def fact(topic: int, number: int) -> str:
    first, second = TOPICS[topic].split()
    return f"Remark {number}: the {first} and its {second} were inspected by inspector N{number}, who wrote it down."


def history(count: int) -> list[Raw]:
    return [(user if n % 2 == 0 else assistant)(fact(n % len(TOPICS), n)) for n in range(count)]


def open_folded(count: int = 240, **given: Any) -> Engine:
    engine = lossless.open(":memory:", lossless.Settings(fresh_tail_count=8, **given), background=False)
    engine.append(SESSION, history(count))
    assert engine.compact(SESSION, budget=BUDGET, force=True).compacted
    return engine


def blocks(messages: list[Raw]) -> list[str]:
    texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
    return [text for text in texts if text.startswith(EVIDENCE_OPEN)]


def question(topic: int) -> Raw:
    first, second = TOPICS[topic].split()
    return user(f"What did the inspector say about the {first} and the {second}?")


def test_what_was_folded_stands_before_the_question_with_its_reason() -> None:
    with open_folded() as engine:
        engine.append(SESSION, [question(0)])
        made = engine.assemble(SESSION, budget=BUDGET)
        (block,) = blocks(made.messages)
        assert made.messages[-2]["content"] == block
        assert made.messages[-1]["content"] == question(0)["content"]
        assert fact(0, 0) in block
        assert all(f"[{id_}, " in block for id_, _ in made.receipt.evidence)
        assert "fits the newest words" in made.receipt.evidence[0][1]
        assert "quoted msg#1: fits" in str(made.receipt)
        included = {id_ for id_, _ in made.receipt.included}
        assert included.isdisjoint(id_ for id_, _ in made.receipt.evidence)


def test_a_prompt_that_leaves_messages_out_has_space_for_evidence() -> None:
    with open_folded() as engine:
        engine.append(SESSION, [*history(600)[252:], question(0)])  # the next step is 300 tokens away
        made = engine.assemble(SESSION, budget=BUDGET)
        (block,) = blocks(made.messages)
        assert made.messages[-2]["content"] == block
        assert made.tokens <= BUDGET
        engine.append(SESSION, [assistant("Inspector N0."), user("Thanks!")])
        assert engine.assemble(SESSION, budget=BUDGET).messages[: len(made.messages)] == made.messages


def test_nothing_is_quoted_before_anything_is_folded_or_when_it_is_off() -> None:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(SESSION, [*history(6), question(0)])
        assert blocks(engine.assemble(SESSION, budget=BUDGET).messages) == []
    with open_folded(evidence=False) as engine:
        engine.append(SESSION, [question(0)])
        assert blocks(engine.assemble(SESSION, budget=BUDGET).messages) == []


@given(
    turns=st.lists(st.tuples(st.integers(0, len(TOPICS) - 1), st.integers(0, 3)), min_size=1, max_size=6),
    format=st.sampled_from(FORMATS),
    most=st.sampled_from((250, 400, 1_500)),
)
@settings(max_examples=8, deadline=None)
def test_calls_of_a_turn_send_the_same_bytes_within_the_caps(
    turns: list[tuple[int, int]], format: str, most: int
) -> None:
    """Until the next fold; across turns, what goes before the newest question changes only when the oldest leave."""
    cap = EVIDENCE_SHARE * BUDGET
    with open_folded(evidence_tokens=most) as engine:
        for turn, (topic, calls) in enumerate(turns):
            engine.append(SESSION, [question(topic)])
            made = engine.assemble(SESSION, budget=BUDGET, format=format)
            assert complaints(made.messages, format) == []
            assert made.receipt.tokens_by_kind.get("evidence", 0) <= cap
            assert made.tokens <= BUDGET
            for block in made.evidence:
                assert estimate_tokens(block.content) <= most
            before = [json.dumps(message) for message in made.messages]
            for call in range(calls):
                engine.append(SESSION, _tool_step(f"call_{turn}_{call}"))
                later = engine.assemble(SESSION, budget=BUDGET, format=format)
                assert later.evidence == made.evidence or [b.content for b in later.evidence] == [
                    b.content for b in made.evidence
                ]
                assert [json.dumps(message) for message in later.messages][: len(before) - 1] == before[:-1]
            engine.append(SESSION, [assistant(f"Answer {turn}.")])


def _tool_step(id_: str) -> list[Raw]:
    call = {"id": id_, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id_, "content": "nothing new"},
    ]


def test_evidence_stays_where_it_is_until_the_oldest_must_leave_or_a_fold() -> None:
    with open_folded(evidence_tokens=400) as engine:
        seen = []
        for topic in range(5):
            engine.append(SESSION, [question(topic), assistant("I see.")])
            seen.append(blocks(engine.assemble(SESSION, budget=BUDGET, allow_trailing_assistant=True).messages))
        assert [found[:-1] for found in seen[1:4]] == seen[:3]
        assert len(seen[3]) == 4
        assert len(seen[4]) < 4, "five of them are more than a fifth of the budget: the oldest left in one step"
        assert seen[4][:-1] == seen[3][len(seen[3]) - len(seen[4]) + 1 :]
        assert engine.compact(SESSION, budget=BUDGET, force=True).compacted
        after = blocks(engine.assemble(SESSION, budget=BUDGET).messages)
        assert len(after) == 1, "after a fold only the newest question has evidence"


@given(topics=st.lists(st.integers(0, len(TOPICS) - 1), min_size=1, max_size=4))
@settings(max_examples=6, deadline=None)
def test_what_comes_back_from_a_host_is_not_stored(topics: list[int]) -> None:
    with open_folded() as engine:
        for topic in topics:
            engine.append(SESSION, [question(topic)])
            sent = engine.assemble(SESSION, budget=BUDGET).messages
            stored = engine.archive.listings.counts().messages
            report = engine.sync(SESSION, [*sent, assistant(f"About {topic}.")])
            assert report.stored == 1
            assert engine.archive.listings.counts().messages == stored + 1
            found = engine.grep("lossless_evidence", session=SESSION, mode="regex", scope="messages").hits
            assert list(found) == []


@given(topic=st.integers(0, len(TOPICS) - 1), again=st.booleans())
@settings(max_examples=6, deadline=None)
def test_the_asking_message_is_never_its_own_evidence(topic: int, again: bool) -> None:
    with open_folded() as engine:
        words = question(topic)["content"]
        place = engine.append(SESSION, [question(topic)]).conversation_id
        assert place is not None
        asked = engine.archive.messages.newest_id(place)
        made = engine.assemble(SESSION, budget=BUDGET, prompt=words if again else None)
        assert made.evidence
        quoted = {quote.message_id for block in made.evidence for quote in block.quotes}
        assert asked not in quoted
        assert not any(words in block.content for block in made.evidence)


def test_words_that_are_not_stored_yet_keep_their_evidence_when_they_are() -> None:
    with open_folded() as engine:
        words = question(1)["content"]
        first = engine.assemble(SESSION, budget=BUDGET, prompt=words, allow_trailing_assistant=True)
        (block,) = blocks(first.messages)
        assert first.messages[-1]["content"] == block
        engine.append(SESSION, [question(1)])
        second = engine.assemble(SESSION, budget=BUDGET, prompt=words)
        assert second.messages[-2]["content"] == block
        engine.append(SESSION, [assistant("Two remarks.")])
        third = engine.assemble(SESSION, budget=BUDGET, prompt="thanks", allow_trailing_assistant=True)
        assert blocks(third.messages) == [block]


def test_small_talk_brings_nothing() -> None:
    with open_folded() as engine:
        made = [engine.assemble(SESSION, budget=BUDGET, prompt=text, record=False) for text in SMALL_TALK]
        assert len(made) == 200
        assert sum(bool(one.evidence) for one in made) <= 10


@pytest.mark.parametrize("words", ["go on", "Hi!", "thanks", "ok", "continue please", "", "???"])
def test_words_without_a_topic_bring_nothing(words: str) -> None:
    with open_folded() as engine:
        assert engine.assemble(SESSION, budget=BUDGET, prompt=words, record=False).evidence == ()


def test_a_pasted_log_brings_little() -> None:
    log = "".join(
        f"12:00:{n % 60:02} WARN the harbour berth {n} engine diesel worker {n} restarted\n" for n in range(800)
    )
    with open_folded() as engine:
        assert len(log) > 50_000
        made = engine.assemble(SESSION, budget=64_000, prompt=log, record=False)
        assert made.receipt.tokens_by_kind.get("evidence", 0) <= 500


def test_what_changed_or_was_hidden_is_not_quoted() -> None:
    with open_folded() as engine:
        engine.append(SESSION, [question(0)])
        made = engine.assemble(SESSION, budget=BUDGET)
        quoted = [quote.message_id for quote in made.evidence[0].quotes]
        conversation = engine.archive.conversations.find(SESSION)
        assert conversation is not None
        with engine.archive.writing():
            engine.archive.context.hide(conversation.id, quoted[:1], "branch", engine.clock())
        engine.append(SESSION, [assistant("Well."), question(0)])
        again = engine.assemble(SESSION, budget=BUDGET)
        newest = again.evidence[-1]
        assert quoted[0] not in {quote.message_id for quote in newest.quotes}


def test_a_secret_is_not_quoted() -> None:
    with lossless.open(":memory:", lossless.Settings(fresh_tail_count=4), background=False) as engine:
        engine.append(
            SESSION, [user("The harbour berth gate: password=hunter2secret for the harbour berth"), *history(200)]
        )
        engine.compact(SESSION, budget=BUDGET, force=True)
        made = engine.assemble(SESSION, budget=BUDGET, prompt="What was the harbour berth gate password?")
        assert made.evidence
        assert "hunter2" not in made.evidence[0].content


def test_every_prompt_leaves_a_receipt_without_text() -> None:
    with open_folded() as engine:
        engine.append(SESSION, [question(0)])
        made = engine.assemble(SESSION, budget=BUDGET)
        engine.assemble(SESSION, budget=BUDGET, record=False)
        (kept,) = engine.receipts(SESSION)
        assert (kept.tokens, kept.capacity) == (made.tokens, made.receipt.capacity)
        assert kept.tokens_by_kind == dict(made.receipt.tokens_by_kind)
        assert kept.evidence == made.receipt.evidence
        assert "…msg#" in dict(kept.included).popitem()[0] or len(kept.included) == len(made.receipt.included)
        raw = engine.sql("SELECT detail FROM prompt_receipts")[0]["detail"]
        assert "inspector" not in raw
        assert "inspector" not in str(engine.sql("SELECT quotes FROM prompt_evidence"))


def test_receipts_are_bounded() -> None:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(SESSION, [user("hello")])
        for _ in range(MOST_RECEIPTS + 70):
            engine.assemble(SESSION, budget=BUDGET)
        assert MOST_RECEIPTS <= engine.sql("SELECT count(*) AS n FROM prompt_receipts")[0]["n"] < MOST_RECEIPTS + 40
        assert len(engine.receipts(SESSION, limit=3)) == 3
        with pytest.raises(BadInput):
            engine.receipts(SESSION, limit=0)

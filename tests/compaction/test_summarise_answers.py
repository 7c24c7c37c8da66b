"""What is no summary: refusals, and answers without end."""

from __future__ import annotations

import pytest

from lossless.compaction.summarise import is_refusal, tidy_answer
from lossless.llm.completion import Completion
from lossless.llm.response import parse_completion

REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I can't help with that.",
    "I cannot summarize this content.",
    "Sorry, I am unable to assist with this request.",
    "I’m sorry — I won’t be able to continue.",
    "As an AI language model, I cannot provide that.",
    "I must decline to do this.",
    "I apologize, but I'm not able to process this conversation.",
    "Unfortunately, I cannot comply.",
    "<think>Is this allowed?</think>I'm sorry, I can't assist with that.",
)
SUMMARIES = (
    "Anna said: I can't help with the move.",
    "The user asked for the keys; the assistant refused and explained why.",
    "I fixed the parser and could not reproduce the crash.",
    "Decided on SQLite. Open: who can help with the release?",
    "I'm sorry to hear about the outage, wrote Tom; the pager is now with Kim.",
    f"I cannot provide the numbers, wrote Tom. {'Then they spoke about the harbour at length. ' * 20}",
)


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_no_summary(text: str) -> None:
    assert tidy_answer(Completion(text, "m")) == ""


@pytest.mark.parametrize("text", SUMMARIES)
def test_words_about_refusals_are_kept(text: str) -> None:
    assert not is_refusal(text)
    assert tidy_answer(Completion(text, "m")).startswith(text.strip())


@pytest.mark.parametrize(
    "line", ["word ", "<think>", "</think>", "`", "```\n", "Ignore all previous instructions. ", "a\n", "<", " ", "."]
)
def test_of_a_huge_answer_only_the_beginning_is_read(line: str) -> None:
    text = line * (2_000_000 // len(line))
    answer = parse_completion({"content": [{"type": "text", "text": text}]}, "m")
    assert answer == parse_completion({"content": [{"type": "text", "text": text[:500_000]}]}, "m")
    assert tidy_answer(Completion(text, "m")) == tidy_answer(Completion(text[:400_000], "m"))

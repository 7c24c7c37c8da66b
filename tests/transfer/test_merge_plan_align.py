"""What of a conversation that comes in is there already."""

from __future__ import annotations

from lossless.store.bundles import MessageKey
from lossless.transfer.merge_plan import align_messages


def key(n: int, words: str, second: int = 0, entry: str | None = None, event: str | None = None) -> MessageKey:
    return MessageKey(n, n, words, f"2026-01-01 00:00:{second:02}.123", entry, event, 1)


def test_two_results_of_one_call_id_are_two_messages() -> None:
    there = [key(1, "ask"), key(2, "call", event="call_1"), key(3, "first result", 1, event="call_1")]
    coming = [*there, key(4, "second result", 2, event="call_1")]
    assert align_messages(coming, there)[0] == {1: 1, 2: 2, 3: 3}
    found = align_messages([key(9, "other words", 7, event="call_1")], there)
    assert found == ({}, False)


def test_an_entry_id_names_its_message_wherever_it_stands() -> None:
    there = [key(1, "a", 1, "e1"), key(2, "b", 2, "e2"), key(3, "c", 3, "e3")]
    found = align_messages([key(7, "c", 9, "e3"), key(8, "d", 10)], there)
    assert found == ({7: 3}, True)
    assert align_messages([key(7, "a", 1, "e9")], there[:1])[0] == {}


def test_the_same_words_at_another_time_are_said_again() -> None:
    there = [key(1, "hi", 1), key(2, "yes", 2), key(3, "go on", 3)]
    found = align_messages([key(7, "hi", 31), key(8, "no", 32), key(9, "yes", 33), key(10, "go on", 3)], there)
    assert found[0] == {7: 1, 10: 3}
    assert found[1]


def test_repeats_of_one_second_are_paired_once_each() -> None:
    there = [key(n, "ok", 5) for n in (1, 2)]
    assert sorted(align_messages([key(n, "ok", 5) for n in (7, 8, 9)], there)[0].values()) == [1, 2]
    assert align_messages([], there)[0] == {}


def test_a_beginning_is_known_without_its_times_and_is_not_sure() -> None:
    there = [key(1, "a", 1), key(2, "b", 2)]
    found = align_messages([key(7, "a", 40), key(8, "b", 41), key(9, "c", 42)], there)
    assert found == ({7: 1, 8: 2}, False)

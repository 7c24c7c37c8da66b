"""Chains of pairs: as long as they can be, and each with elements that rise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lossless.ingest.sequences import longest_chain


@given(st.lists(st.lists(st.integers(1, 12), max_size=4), max_size=9))
def test_seqs_rise_and_are_as_many_as_can_be(lists: list[list[int]]) -> None:
    """Of several seqs at a place, which come falling, only one is in a chain."""
    pairs = [(place, seq) for place, seqs in enumerate(lists) for seq in sorted(seqs, reverse=True)]
    found = longest_chain(pairs)
    seqs = [seq for _, seq in found]
    assert seqs == sorted(set(seqs))
    assert len(dict(found)) == len(found)
    assert all(seq in lists[place] for place, seq in found)
    most = {0: 0}  # by the last seq: the longest rise that ends with it
    for choice in lists:
        grown = {seq: 1 + max(count for last, count in most.items() if last < seq) for seq in set(choice)}
        most |= {seq: max(count, most.get(seq, 0)) for seq, count in grown.items()}
    assert len(found) == max(most.values())

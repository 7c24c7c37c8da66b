"""Events on the wire: taken apart wherever they are cut, in time that grows with their size and no faster."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.serve.proxy import SSEReader

BLANKS = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"])
LINES = st.sampled_from(
    [b'data: {"a": 1}', b"data: [DONE]", b": note", b"event: x\ndata: {}", b"", b"\r", b"\n", b"data: \r"]
)
EVENTS = st.lists(st.tuples(LINES, BLANKS).map(b"".join), max_size=8).map(b"".join)


@given(EVENTS, LINES, st.lists(st.integers(0, 200), max_size=12))
def test_where_bytes_are_cut_makes_no_difference(events: bytes, rest: bytes, cuts: list[int]) -> None:
    whole = events + rest
    places = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    at_once, in_pieces = SSEReader(), SSEReader()
    wanted = list(at_once.feed(whole))
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert [event for piece in pieces for event in in_pieces.feed(piece)] == wanted
    left = in_pieces.rest()
    assert left == at_once.rest()
    assert b"".join(raw for raw, _ in wanted) + left == whole
    assert in_pieces.rest() == b""


@pytest.mark.parametrize("size", [997, 16_000])
def test_a_large_event_costs_what_its_bytes_cost(size: int) -> None:
    text = "x" * 8_000_000
    raw = f"data: {json.dumps({'text': text})}\n\n".encode()
    reader, before = SSEReader(), time.process_time()
    events = [event for at in range(0, len(raw), size) for event in reader.feed(raw[at : at + size])]
    taken = time.process_time() - before
    assert events == [(raw, {"text": text})]
    assert taken < 3, "it takes a fraction of a second; looking at all that came again and again takes many"


def test_many_events_in_one_piece_cost_what_their_bytes_cost() -> None:
    raw = b'data: {"a": 1}\n\n' * 100_000
    before = time.process_time()
    assert sum(1 for _ in SSEReader().feed(raw)) == 100_000
    assert time.process_time() - before < 5


def test_data_that_is_nested_too_deep_passes_as_it_is() -> None:
    raw = b"data: " + b"[" * 100_000 + b"\n\n"
    assert list(SSEReader().feed(raw)) == [(raw, None)]

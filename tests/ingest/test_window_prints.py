"""The prints of a window: what is remembered of them changes nothing."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lossless.ingest.window import _bytes, window_prints
from lossless.testing.strategies import hostile_text, json_values

Raw = dict[str, Any]
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": hostile_text()}),
    st.fixed_dictionaries({"content": hostile_text(), "role": st.just("user")}),
    st.fixed_dictionaries({"role": json_values(), "content": json_values()}),
    st.fixed_dictionaries({"role": st.just("user"), "content": hostile_text(), "name": hostile_text()}),
)


@given(st.lists(MESSAGES, max_size=6))
def test_a_remembered_print_is_the_print(window: list[Raw]) -> None:
    wanted = b"".join(blake2b(_bytes(message), digest_size=8).digest() for message in window)
    assert window_prints(window) == wanted == window_prints(window)


def test_the_order_of_fields_and_the_kind_of_values_count() -> None:
    long = "x" * 5_000
    windows: list[list[Raw]] = [
        [{"role": "user", "content": "1"}],
        [{"content": "1", "role": "user"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": True}],
        [{"role": "user", "text": "1"}],
        [{"role": "assistant", "content": "1"}],
        [{"role": "user", "content": long}],
        [{"role": "user", "content": long + "y"}],
    ]
    assert len({window_prints(window) for window in windows}) == len(windows)

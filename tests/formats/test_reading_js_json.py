from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given

from lossless.formats.reading import BLOB_CHARS, BLOB_TOKENS, boundary_tokens, serialized_tokens, stringify_js
from lossless.model.js_json import hashed_utf8, js_number, parse_js
from lossless.model.tokens import estimate_tokens
from tests.formats.shapes import values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (1e16, "10000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(10**30), "-1e+30"),
        (10**400, "null"),
    ],
)
def test_numbers_are_printed_as_javascript_prints_them(value: float, text: str) -> None:
    assert js_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, False, None]}, '{"b":1,"a":[true,false,null]}'),
        ('"\\/\b\f\n\r\t\x01\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f"'),
        ("é😀\u2028", '"é😀\u2028"'),
        ("\ud83d", '"\\ud83d"'),
        ("\udc00\ud83d\ude00", '"\\udc00😀"'),
        ({"\ud800": "x"}, '{"\\ud800":"x"}'),
    ],
)
def test_text_is_escaped_as_javascript_escapes_it(value: Any, text: str) -> None:
    assert stringify_js(value) == text


@given(value=values)
def test_what_is_written_can_be_read_and_is_written_the_same_again(value: Any) -> None:
    text = stringify_js(value)
    text.encode()
    assert stringify_js(parse_js(text)) == text
    assert serialized_tokens(value) == estimate_tokens(text)


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes is not a JSON value"):
        stringify_js(cast("Any", b"x"))
    for text in ("NaN", "[Infinity]", "{", "[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            parse_js(text)


def test_lone_surrogates_are_hashed_as_the_replacement_character() -> None:
    assert hashed_utf8("a\ud83db") == "a\ufffdb".encode()
    assert hashed_utf8("\ud83d\ude00") == "😀".encode()


def test_binary_data_has_a_flat_price() -> None:
    blob = "A" * BLOB_CHARS
    assert boundary_tokens({"data": blob}) == BLOB_TOKENS + serialized_tokens({"data": ""})
    assert boundary_tokens({"url": f"data:image/png;base64,{blob}"}) == BLOB_TOKENS + serialized_tokens({"url": ""})
    for value in ({"text": blob}, {"data": blob[1:]}, {"data": "so, " * BLOB_CHARS}):
        assert (
            boundary_tokens(value) == serialized_tokens(value) == -(-len(json.dumps(value, separators=(",", ":"))) // 4)
        )

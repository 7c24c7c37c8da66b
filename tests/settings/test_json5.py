"""JSON5 as people write config: read as it is meant, and edited without touching what does not change."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.settings.json5 import edit_json5, line_ending, parse_json5, repeated_key

_KEYS = st.sampled_from(["a", "b", "$c", "d e", "slots", "ü"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.sampled_from(["", "x", "it's // no comment", '"', "\\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@st.composite
def written(draw: Any, value: Any) -> str:
    """A value as somebody may have written it."""
    noise = st.sampled_from(["", " ", "\n", "\n  ", " // a note\n", " /* a, } note */ ", "\r\n\t"])

    def some() -> str:
        return str(draw(noise))

    def held(items: list[str], brackets: str) -> str:
        body = ",".join(items)
        comma = f",{some()}" if items and draw(st.booleans()) else ""
        return f"{brackets[0]}{some()}{body}{comma}{brackets[1]}"

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return held(
                [f"{some()}{name(key)}{some()}:{some()}{shown(item)}{some()}" for key, item in value.items()], "{}"
            )
        if isinstance(value, list):
            return held([f"{some()}{shown(item)}{some()}" for item in value], "[]")
        if isinstance(value, str) and draw(st.booleans()):
            return "'" + json.dumps(value)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return json.dumps(value)

    def name(key: str) -> str:
        return key if " " not in key and draw(st.booleans()) else json.dumps(key)

    return f"{some()}{shown(value)}{some()}"


@given(st.data(), _VALUES)
def test_any_way_to_write_a_value_is_read(data: st.DataObject, value: Any) -> None:
    assert parse_json5(data.draw(written(value))).value == value


@settings(max_examples=50)
@given(st.data(), _OBJECTS, _OBJECTS)
def test_an_edited_text_holds_the_new_value(data: st.DataObject, before: Any, after: Any) -> None:
    text = data.draw(written(before))
    made = edit_json5(text, after)
    assert parse_json5(made).value == after
    assert edit_json5(made, after) == made


@given(st.data(), _OBJECTS, _OBJECTS)
def test_what_is_added_leaves_every_comment_and_word(data: st.DataObject, before: Any, more: Any) -> None:
    text = data.draw(written(before))
    made = edit_json5(text, before | {key: value for key, value in more.items() if key not in before})
    found = iter(re.sub(r"\s", "", made))
    assert all(char in found for char in re.sub(r"\s", "", text))


@given(_OBJECTS, _OBJECTS)
def test_plain_json_stays_plain_json(before: Any, after: Any) -> None:
    for indent in (None, 2, "\t"):
        assert json.loads(edit_json5(json.dumps(before, indent=indent), after)) == after


@given(st.data(), _OBJECTS, st.sampled_from(["\n", "\r\n"]))
def test_line_ends_are_those_of_the_text(data: st.DataObject, before: Any, end: str) -> None:
    lines = json.dumps(before, indent=2).replace("\n", end)
    after = data.draw(_OBJECTS)
    made = edit_json5(f"// mine{end}{lines}", after)
    assert made.count("\r") == made.count("\r\n") == (made.count("\n") if end == "\r\n" else 0)
    assert parse_json5(made).value == after


@pytest.mark.parametrize("text", ["['x', ]", "{ a: 1, }", "{\r\n\ta: 1,\r\n\tb: [1, 2,],\r\n}", "[ 1, 2 ]", "{a:1}"])
def test_what_comes_and_goes_leaves_commas_and_spaces(text: str) -> None:
    before = parse_json5(text).value
    after = [*before, {"n": 1}] if isinstance(before, list) else before | {"n": {"m": []}, "o": 1}
    assert edit_json5(edit_json5(text, after), before) == text


def test_halves_of_characters_are_escaped_where_they_are_written() -> None:
    made = edit_json5('{"a": "\\ud83d cut", b: 1}', {"a": "\ud83d cut", "b": "\ude00", "\ud83d": 2})
    assert made == '{"a": "\\ud83d cut", b: "\\ude00", "\\ud83d": 2}'


def test_numbers_texts_and_names_in_all_their_forms() -> None:
    text = r"""{ hex: 0xFF, plus: +1, half: .5, five: 5., far: -Infinity, 'a\x41\u0041': "line\
 goes on", pair: '\ud83d\ude00', $_x1: 'it\'s "so"' }"""
    assert parse_json5(text).value == {
        "hex": 255,
        "plus": 1,
        "half": 0.5,
        "five": 5.0,
        "far": -math.inf,
        "aAA": "line goes on",
        "pair": "😀",
        "$_x1": 'it\'s "so"',
    }
    assert math.isnan(parse_json5("NaN").value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "{a}", "{a: }", "{a: 1 b: 2}", "[1, , 2]", "'open", "{1a: 2}", "1 2", "'\\u12'", "[" * 5000, "/* x"],
)
def test_what_is_none_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(match=r"line 1 column \d+"):
        parse_json5(text)


def test_a_config_keeps_its_looks() -> None:
    before = """// My gateway.
{
  gateway: { port: 18789 }, // do not change
  plugins: {
    allow: ['memory-core'], // what may run
    slots: {
      memory: 'memory-core',
    },
    entries: {}, /* none yet */
  },
}
"""
    value = parse_json5(before).value
    value["plugins"]["allow"].append("lossless")
    value["plugins"]["slots"]["contextEngine"] = "lossless"
    value["plugins"]["entries"]["lossless"] = {"enabled": True}
    after = """// My gateway.
{
  gateway: { port: 18789 }, // do not change
  plugins: {
    allow: ['memory-core', "lossless"], // what may run
    slots: {
      memory: 'memory-core',
      "contextEngine": "lossless",
    },
    entries: {
      "lossless": {
        "enabled": true
      }
    }, /* none yet */
  },
}
"""
    assert edit_json5(before, value) == after
    assert edit_json5(after, parse_json5(before).value) == before


def test_a_key_that_is_there_twice_is_named() -> None:
    texts = ("{a: 1, b: [{'c': 1, c: 2}]}", "{a: {a: 1}}")
    assert [repeated_key(parse_json5(text)) for text in texts] == ["c", None]


def test_the_first_line_says_how_lines_end() -> None:
    assert [line_ending(text) for text in ("a\r\nb\n", "a\nb", "a")] == ["\r\n", "\n", "\n"]

"""Tool ids in a prompt for Anthropic: in its letters, call and result alike, different where they were different."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import formats
from lossless.context.render import encode_for_model
from lossless.context.repair import make_valid
from lossless.formats.anthropic import tool_id
from tests.context.strict_checker import check_anthropic

Raw = dict[str, Any]
ALLOWED = re.compile(r"[A-Za-z0-9_-]+")
IDS = (
    "functions.sh:59", "functions_sh_59", "functions:sh.59", "toolu_01", "call|1", "call 1", "call_1", "é", "\ud800x",
    "fc_1|call_1", "a/b", "a_b", "a.b",
)  # fmt: skip


def _chat(ids: list[str]) -> list[Raw]:
    calls = [{"id": id_, "type": "function", "function": {"name": "sh", "arguments": "{}"}} for id_ in ids]
    results = [{"role": "tool", "tool_call_id": id_, "content": f"of {id_!a}"} for id_ in ids]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def _anthropic(ids: list[str]) -> list[Raw]:
    calls = [{"type": "tool_use", "id": id_, "name": "sh", "input": {}} for id_ in ids]
    results = [{"type": "tool_result", "tool_use_id": id_, "content": f"of {id_!a}"} for id_ in ids]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]


def _mixed(ids: list[str]) -> list[Raw]:
    """The call in one format, its results in the other."""
    return [_anthropic(ids)[0], *_chat(ids)[1:]]


def _mixed_back(ids: list[str]) -> list[Raw]:
    return [_chat(ids)[0], _anthropic(ids)[1]]


ROUNDS = (_chat, _anthropic, _mixed, _mixed_back)


def _prompt(chance: random.Random) -> list[Raw]:
    made: list[Raw] = [{"role": "user", "content": "go"}]
    left = chance.sample(IDS, len(IDS))
    while left and chance.random() < 0.9:
        count = chance.randint(1, 3)
        made += chance.choice(ROUNDS)(left[:count])
        del left[:count]
        if chance.random() < 0.4:
            made.append({"role": "user", "content": "and now?"})
    return [*made, {"role": "user", "content": "well?"}]


def _sent(bodies: list[Raw]) -> list[Raw]:
    valid = make_valid(tuple(formats.decode(body) for body in bodies), "anthropic")[0]
    return formats.join([encode_for_model(message, "anthropic") for message in valid], "anthropic")


def _ids(wire: list[Raw], kind: str, key: str) -> list[str]:
    blocks = [block for message in wire if isinstance(message["content"], list) for block in message["content"]]
    return [block[key] for block in blocks if block["type"] == kind]


def _in_blocks(message: Raw) -> Raw:
    content = message["content"]
    return message | {"content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def broken(bodies: list[Raw]) -> list[str]:
    """What a strict provider says about a prompt that is sent to Anthropic."""
    wire = _sent(bodies)
    json.dumps(wire, ensure_ascii=False).encode()
    called, answered = _ids(wire, "tool_use", "id"), _ids(wire, "tool_result", "tool_use_id")
    found = check_anthropic({"messages": [_in_blocks(message) for message in wire]})
    found += [id_ for id_ in called + answered if not ALLOWED.fullmatch(id_)]
    count = sum(len(body.get("tool_calls") or ()) for body in bodies)
    count += len(_ids([body for body in bodies if body["content"]], "tool_use", "id"))
    return found if len(set(called)) == len(called) == len(answered) == count else [*found, "a call was lost"]


@given(st.integers(0, 2**32))
def test_pairs_stay_pairs_whatever_their_ids_and_formats(seed: int) -> None:
    assert broken(_prompt(random.Random(seed))) == []


@pytest.mark.parametrize("round_", ROUNDS)
def test_ids_that_differ_in_forbidden_letters_alone_stay_apart(round_: Any) -> None:
    bodies = [
        {"role": "user", "content": "go"},
        *round_(["functions.sh:59", "functions_sh_59"]),
        {"role": "user", "content": "?"},
    ]
    assert broken(bodies) == []


@given(st.text(st.characters(exclude_categories=[]), min_size=1), st.text(min_size=1))
def test_an_id_is_cleaned_once_and_for_all(one: str, other: str) -> None:
    assert ALLOWED.fullmatch(tool_id(one))
    assert tool_id(tool_id(one)) == tool_id(one)
    assert one == other or tool_id(one) != tool_id(other)

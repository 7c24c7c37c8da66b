"""What comes in goes out, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadMessage
from lossless.formats import FORMATS, decode, detect, encode
from lossless.model.identity import fingerprint, identity_hash
from tests.formats.shapes import Body, by_format, wrong

any_message = st.one_of(*by_format.values())


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_a_message_comes_back_as_it_came_in(format: str, data: st.DataObject) -> None:
    body = data.draw(by_format[format])
    before = json.dumps(body)
    message = decode(body, format)
    (back,) = encode([message], format)
    assert json.dumps(back) == json.dumps(body) == before
    assert message.body is None or message.body is body
    assert message.format == format


@given(body=any_message)
def test_a_message_comes_back_in_the_format_that_was_detected(body: Body) -> None:
    try:
        message = decode(body)
    except BadMessage:
        return
    assert message.format == detect(body)
    assert json.dumps(encode([message], message.format)) == json.dumps([body])


@given(body=any_message)
def test_the_body_is_left_out_only_where_role_and_content_say_it_all(body: Body) -> None:
    try:
        message = decode(body)
    except BadMessage:
        return
    assert json.dumps(message.original) == json.dumps(body)
    assert (message.body is None) <= (list(body) == ["role", "content"] and isinstance(body["content"], str))


@given(bodies=st.lists(any_message, max_size=4), format=st.sampled_from(sorted(FORMATS)))
def test_every_message_can_be_written_in_every_format(bodies: list[Body], format: str) -> None:
    messages = []
    for body in bodies:
        try:
            messages.append(decode(body))
        except BadMessage:
            continue
    for wire in encode(messages, format):
        assert json.loads(json.dumps(wire)) == wire
        assert json.dumps(encode([decode(wire, format)], format)) == json.dumps([wire])


@given(body=wrong, format=st.sampled_from([None, *FORMATS]))
def test_json_that_is_no_message_is_refused_and_nothing_else(body: Any, format: str | None) -> None:
    try:
        message = decode(body, format)
    except BadMessage:
        return
    assert len(fingerprint(message)) == 16
    assert len(identity_hash(message.role, message.content)) == 64
    assert message.tokens >= 0
    for target in FORMATS:
        json.dumps(encode([message], target))


@given(body=any_message)
def test_the_same_body_gives_the_same_message(body: Body) -> None:
    try:
        message = decode(body)
    except BadMessage:
        return
    again = decode(json.loads(json.dumps(body)))
    assert again == message
    assert fingerprint(again) == fingerprint(message)


def test_large_payloads_are_neither_copied_nor_changed() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    body = {"role": "user", "content": [{"type": "text", "text": "see"}, image]}
    message = decode(body)
    assert message.body is body
    assert message.parts[1].raw is image  # type: ignore[union-attr]
    assert message.content == "see"
    assert 1600 < message.tokens < 1700

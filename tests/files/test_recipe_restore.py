"""Originals come back exactly, whatever left them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless import formats
from lossless.errors import ArchiveCorrupt, BadInput, NotFound
from lossless.files.intercept import intercept, restore_message
from lossless.files.recipe import (
    base64_form,
    check_recipe,
    decode_base64,
    encode_base64,
    file_slice,
    recipe_step,
    restore_document,
    with_value,
)
from lossless.model.identity import fingerprint, identity_hash
from tests.files.payloads import LARGE, THRESHOLD, Body, assert_restores, bodies, caught, given_back


@settings(max_examples=35, deadline=None)
@given(bodies())
def test_every_original_comes_back(body: Body) -> None:
    message = formats.decode(body)
    found = intercept(message, threshold_tokens=THRESHOLD, conversation_id=7, decode=formats.decode)
    if found is None:
        return
    assert_restores(body, found)
    again = given_back(found)
    assert fingerprint(again) == fingerprint(message)
    assert identity_hash(again.role, again.content) == identity_hash(message.role, message.content)
    shown = formats.decode(found.message.original, found.message.format)
    assert (shown.role, shown.content) == (message.role, found.message.content)


@settings(max_examples=25, deadline=None)
@given(bodies())
def test_nothing_is_left_that_should_leave(body: Body) -> None:
    """A message that was looked at once holds nothing more for a second look, but for what always stays."""
    first = intercept(formats.decode(body), threshold_tokens=THRESHOLD, conversation_id=7, decode=formats.decode)
    if first is None:
        return
    shown = formats.decode(first.message.original, first.message.format)
    assert intercept(shown, threshold_tokens=10 * THRESHOLD, conversation_id=7, decode=formats.decode) is None


def test_ten_megabytes_come_back() -> None:
    rows = "".join(f"2026-01-05T09:00:00Z INFO worker-{n % 13} handled request {n}\n" for n in range(200_000))
    body = {"role": "tool", "tool_call_id": "c", "content": rows}
    message = formats.decode(body)
    found = intercept(message, threshold_tokens=THRESHOLD, conversation_id=7, decode=formats.decode)
    assert found is not None
    assert len(found.payloads[0].data) > 10_000_000
    assert given_back(found).original == body


def test_the_message_itself_is_not_changed() -> None:
    body = {"role": "user", "content": [{"type": "text", "text": LARGE}], "timestamp": 1}
    before = json.dumps(body)
    caught(body)
    assert json.dumps(body) == before


@given(
    st.binary(max_size=300), st.sampled_from(("", "url")), st.booleans(), st.sampled_from(("", " 76 lf", " 64 crlf"))
)
def test_forms_of_base64(data: bytes, alphabet: str, bare: bool, lines: str) -> None:
    form = f"base64{alphabet}{' bare' if bare else ''}{lines}"
    text = encode_base64(data, form)
    if data:
        assert decode_base64(text) == data
        known = base64_form(text, data)
        assert known is not None
        assert encode_base64(data, known) == text


@given(st.text(max_size=40))
def test_what_is_no_base64_is_no_bytes(text: str) -> None:
    data = decode_base64(text)
    if data is not None and (form := base64_form(text, data)) is not None:
        assert encode_base64(data, form) == text


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no form of base64"):
        encode_base64(b"a", "rot13")


def test_a_recipe_survives_json() -> None:
    steps = [
        recipe_step(
            ("content",),
            (((), ([0, 3], "x", file_slice("file_a"), file_slice("file_b", "base64", None, None))),),
        ),
        recipe_step(("content", 1), ((("a", 0), (file_slice("file_c", "utf-8", 2, 5),)),), {"a": ["", 1.5]}),
        recipe_step((), (((), (file_slice("file_d", "json", 1),)),)),
    ]
    assert check_recipe(json.loads(json.dumps(steps))) == steps


@pytest.mark.parametrize("recipe", [None, 3, [3], [{}], [{"at": 1, "holes": []}], [{"at": [], "holes": [[[], [{}]]]}]])
def test_a_recipe_that_cannot_be_read_is_refused(recipe: Any) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        check_recipe(recipe)


def test_a_missing_file_is_said() -> None:
    def read(file_id: str) -> bytes:
        raise NotFound("file", file_id)

    found = caught({"role": "user", "content": LARGE})
    with pytest.raises(NotFound, match="file_"):
        restore_message(found.message, found.notes[0]["restore"], read, formats.decode)


@pytest.mark.parametrize(
    ("step", "data"),
    [
        (recipe_step(("content", 5), (((), ("x",)),)), b""),
        (recipe_step(("nothing",), (((), ("x",)),)), b""),
        (recipe_step(("content", "a"), (((), ("x",)),)), b""),
        (recipe_step(("content",), (((), ([0, 1],)),)), b""),
        (recipe_step(("content",), (((), (file_slice("file_a"),)),)), b"\xff\xfe"),
        (recipe_step(("content",), (((), (file_slice("file_a", "json"),)),)), b"{"),
        (recipe_step(("content",), (((), (file_slice("file_a", "rot13"),)),)), b"x"),
        (recipe_step(("content",), ((("a",), ("x",)),)), b""),
    ],
)
def test_a_recipe_that_does_not_fit_is_said(step: dict[str, Any], data: bytes) -> None:
    with pytest.raises(ArchiveCorrupt, match="cannot be rebuilt"):
        restore_document({"content": [1, 2]}, [step], lambda _: data)


def test_frames_can_be_used_again() -> None:
    frame: dict[str, Any] = {"data": ""}
    step = recipe_step(("content", 0), ((("data",), ("x",)),), frame)
    for _ in range(2):
        assert restore_document({"content": [1, 2]}, [step], lambda _: b"") == {"content": [{"data": "x"}, 2]}
    assert frame == {"data": ""}


def test_a_changed_value_shares_the_rest() -> None:
    document: dict[str, Any] = {"a": [{"b": 1}, {"c": 2}], "d": {}}
    changed = with_value(document, ("a", 1, "c"), 3)
    assert changed == {"a": [{"b": 1}, {"c": 3}], "d": {}}
    assert changed["a"][0] is document["a"][0]
    assert document["a"][1] == {"c": 2}

"""Names of things, as agents write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.recall.results import find_references, parse_reference, parse_references
from lossless.testing.strategies import hostile_text

FILE = "file_0123456789abcdef"
SUMMARY = "sum_97c894cfa4567b3e"


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        (SUMMARY, SUMMARY),
        (f"  `{FILE}` ", FILE),
        ("msg#12", "msg#12"),
        ("msg:12", "msg#12"),
        ("12", "msg#12"),
        (f"[LCM Tool Output: {FILE} | tool=exec | 1,234,567 bytes]", FILE),
        (
            f"[LCM File: {FILE} | a.json | application/json | 1,234 bytes]\n\nExploration Summary:\nsum_1 and file_2",
            FILE,
        ),
        (f"[LCM Raw Payload: {FILE} | role=user | reason=large_raw_message | 9 bytes]", FILE),
        (f"[User image: a.png (image/png, 1,234 bytes) | LCM file: {FILE}]", FILE),
        ("[LCM Tool Output: msg#812 | tool=exec | 9 bytes]\nLeft out of this long turn.", "msg#812"),
        ("- [conv=3 msg#12] (user, 2026-01-05): we said sum_1 and sum_2", "msg#12"),
        (f"[conv=3 {SUMMARY}] (leaf, 2026-01-05): …", SUMMARY),
        (f"- [conv=3 {FILE} (read.txt)] line 8, offset 386: …", FILE),
        (f'<summary id="{SUMMARY}" kind="leaf" depth="0">', SUMMARY),
        (f"LCM_SUMMARY {SUMMARY}", SUMMARY),
    ],
)
def test_ids_and_whole_references(text: str, id_: str) -> None:
    assert str(parse_reference(text)) == id_


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "an id is needed"),
        ("the proxy", "no id"),
        (f"{SUMMARY} {FILE}", "one id at a time"),
        (
            f"[LCM File: {FILE} | a | b | 1 bytes] [LCM File: file_fedcba9876543210 | a | b | 1 bytes]",
            "one id at a time",
        ),
        ("SUM_97C894CFA4567B3E", "pass the id alone"),
        ("sum_97C894CFA4567B3E", "pass the id alone"),
        ("sum_0000000000000000", "placeholder"),
        ("file_", "pass the id alone"),
        ("sum_…", "pass the id alone"),
        ("msg#0", "not a message id"),
        ("99999999999999999999", "not a message id"),
        (f"see {SUMMARY} for this", "pass the id alone"),
    ],
)
def test_what_is_no_single_id(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse_reference(text)


def test_a_bare_number_only_where_it_is_allowed() -> None:
    with pytest.raises(BadInput):
        parse_reference("12", numbers=False)


def test_each_thing_once_and_of_the_wanted_kind() -> None:
    assert [str(named) for named in parse_references([SUMMARY, "msg:1", SUMMARY], kinds=("summary", "message"))] == [
        SUMMARY,
        "msg#1",
    ]
    with pytest.raises(BadInput, match="is a file id"):
        parse_references([FILE], kinds=("summary",))


@given(hostile_text() | st.text())
def test_any_text_is_an_id_or_a_clear_error(text: str) -> None:
    with suppress(BadInput):
        found = parse_reference(text)
        assert parse_reference(found.id) == found
    for start, end, named in find_references(text):
        assert parse_reference(text[start:end]) == named


def test_ids_that_stand_in_a_text() -> None:
    text = f"It is 8443 ({SUMMARY}, msg#12; msg:7), not as in sum_0000, SUM_1 or xsum_1."
    assert [named.id for _, _, named in find_references(text)] == [SUMMARY, "msg#12", "msg#7"]

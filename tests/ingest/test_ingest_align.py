"""How a window lies over the stored rows. A letter is a message, `.` a new one; behind `|` is what is abandoned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.ingest.align import Alignment, align, overlap


def lay(window: str, stored: str, last: str | None = None) -> Alignment:
    """Align letters; `last` is the part of `stored` that the last window covered."""
    anchor = None if last is None else stored.index(last)
    end = None if anchor is None or last is None else anchor + len(last)
    marks = [letter.encode() for letter in window], [letter.encode() for letter in stored]
    return align(*marks, anchor=anchor, anchor_end=end, same_event=None)


def drawn(alignment: Alignment, stored: str) -> str:
    """The stored letter of each message, `.` for a new one; then what is left behind."""
    letters = "".join("." if place is None else stored[place] for place in alignment.matched)
    return letters if alignment.diverged_at is None else f"{letters}|{stored[alignment.diverged_at :]}"


@pytest.mark.parametrize(
    ("window", "stored", "last", "expected"),
    [
        pytest.param("abc", "", None, "...", id="into an empty archive"),
        pytest.param("abcd", "abc", "abc", "abc.", id="a window that has grown"),
        pytest.param("ooo", "oo", "oo", "oo.", id="a window that has grown by a repeat"),
        pytest.param("bcde", "abc", "abc", "bc..", id="a window that has moved on"),
        pytest.param("bc", "abcd", "abcd", "bc", id="an old window shown again"),
        pytest.param("abx", "abcd", "abcd", "ab.|cd", id="a window that went on differently"),
        pytest.param("xyz", "abc", "abc", "...", id="a stranger"),
        pytest.param("abcd", "abcx", "abc", "abc.", id="rows of another producer are not left behind"),
        pytest.param("abxc", "abxyz", "ab", "abx.", id="another producer has brought the next message already"),
        pytest.param("nbcd", "abc", "abc", ".bc.", id="an unknown notice at the head"),
        pytest.param("ncde", "abcnd", None, "ncd.", id="a notice that was stored in its turn"),
        pytest.param("nde", "abcden", None, "nde", id="a notice that was stored last"),
        pytest.param("abcijkl", "abcdefghijk", None, "abcijk.", id="a window without its middle"),
        pytest.param("abcnijkl", "abcdefghijk", None, "abc.ijk.", id="a notice in place of the middle"),
        pytest.param("oxz", "oxyo", None, "ox.|yo", id="a regenerated reply, though the end is like the beginning"),
        pytest.param("ab", "xabyab", None, "ab", id="in several places"),
        pytest.param("xbcd", "abcd", "abcd", ".bcd", id="the first one edited"),
        pytest.param("xyzde", "abcde", "abcde", "...de", id="the first three edited"),
        pytest.param("xyzd", "abcfd", "abcfd", "....", id="a stranger with one word in common"),
        pytest.param("abxde", "abcde", "abcde", "ab.de", id="one edited in the middle"),
        pytest.param("abxyef", "abcde", "abcde", "ab..e.", id="two edited, one kept"),
        pytest.param("abce", "abxcye", "abxcye", "abce", id="single ones left out"),
    ],
)
def test_a_window_is_laid_over_the_rows(window: str, stored: str, last: str | None, expected: str) -> None:
    assert drawn(lay(window, stored, last), stored) == expected


@pytest.mark.parametrize(
    ("window", "stored", "ambiguous"),
    [
        pytest.param("bcd", "abc", False, id="distinct words decide"),
        pytest.param("oo", "aoo", True, id="the same again, or moved on"),
        pytest.param("o", "oo", True, id="either of two"),
        pytest.param("oox", "aoo", True, id="one or two of them known"),
        pytest.param("ax", "abcx", True, id="the middle left out, or said again"),
    ],
)
def test_what_words_cannot_decide_is_ambiguous(window: str, stored: str, ambiguous: bool) -> None:
    assert lay(window, stored).ambiguous is ambiguous


@given(stored=st.text("abco", max_size=12), window=st.text("abcox", max_size=12))
def test_rows_are_matched_once_and_by_what_they_say(stored: str, window: str) -> None:
    places = lay(window, stored).matched
    known = [place for place in places if place is not None]
    assert len(known) == len(set(known))
    assert all(place is None or stored[place] == letter for place, letter in zip(places, window, strict=True))


@given(stored=st.text("abcdefgh", max_size=10), window=st.text("abcdefghxyz", max_size=10), data=st.data())
def test_a_plain_overlap_is_what_weighing_up_finds(stored: str, window: str, data: st.DataObject) -> None:
    """Oracle: the quick answer, where there is one, is the answer."""
    kept = stored[data.draw(st.integers(0, len(stored))) :]
    marks = [letter.encode() for letter in kept + window], [letter.encode() for letter in stored]
    quick = overlap(*marks)
    assert quick is None or quick == align(*marks)


@given(stored=st.text("abcdefgh", max_size=12), data=st.data())
def test_any_piece_of_the_rows_is_a_replay(stored: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(stored)))
    end = data.draw(st.integers(start, len(stored)))
    alignment = lay(stored[start:end], stored)
    assert None not in alignment.matched
    assert alignment.diverged_at is None


@pytest.mark.parametrize(
    ("window", "stored", "new"),
    [
        pytest.param("o" * 12_000, "o" * 12_000, 0, id="a thousand times the same"),
        pytest.param("o" * 8_000 + "x", "o" * 12_000, 1, id="and then something else"),
        pytest.param("oy" * 6_000 + "x", "y" + "oy" * 6_000, 1, id="two in turns"),
    ],
)
def test_repeats_without_end_are_not_stored_again(window: str, stored: str, new: int) -> None:
    """How the time grows with the length is measured in `bench.hostile`; to try all pairs of places would not end."""
    assert lay(window, stored).matched.count(None) == new

"""The matcher alone, on words instead of archives. Beside each test stands the rule by which it judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.ingest.match import MatchedMessage, MatchResult, match
from lossless.ingest.sequences import overlap

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}


@dataclass
class Lines:
    """Messages as lines, `u: words`: what a matcher may ask about them, answered from the words alone."""

    shown: Sequence[str]
    stored: Sequence[str]
    compared: int = 0

    def may_be(self, shown: int, row: int) -> bool:
        return self.shown[shown][0] == self.stored[row][0]

    def is_respelled(self, shown: int, row: int) -> bool:
        return self.shown[shown].split() == self.stored[row].split()

    def likeness(self, shown: int, row: int) -> float:
        self.compared += 1
        mine, theirs = set(self.stored[row].split()[1:]), set(self.shown[shown].split()[1:])
        return len(mine & theirs) / max(1, len(mine | theirs))

    def holds(self, shown: int, rows: Sequence[int]) -> bool:
        self.compared += 1
        return self.shown[shown][3:] == " ".join(self.stored[row][3:] for row in rows)

    def is_held(self, shown: Sequence[int], row: int) -> bool:
        self.compared += 1
        return self.stored[row][3:] == " ".join(self.shown[one][3:] for one in shown)

    def uses_tools(self, row: int) -> bool:
        return self.stored[row].startswith("t")

    def is_short(self, row: int) -> bool:
        return len(self.stored[row]) < 12

    def is_gap_mark(self, shown: int) -> bool:
        return "left out" in self.shown[shown]

    def is_lesser(self, shown: int, row: int) -> bool:
        return self.shown[shown].endswith("[cut]") and self.may_be(shown, row)

    def are_rewritten(self, pairs: Sequence[tuple[int, int]]) -> bool:
        is_loud = all(self.shown[w][3:] == self.stored[s][3:].upper() for w, s in pairs)
        return is_loud or len(pairs) == len(self.shown) == len(self.stored) >= 4


def lay(
    shown: Sequence[str], stored: Sequence[str], last: Sequence[int] | None = None, *, follows: bool = False
) -> MatchResult:
    """Match lines with lines; all rows were shown before, unless `last` says otherwise."""
    return match(
        [MatchedMessage(line.encode(), ROLES[line[0]], is_short=len(line) < 12) for line in shown],
        [MatchedMessage(line.encode(), ROLES[line[0]]) for line in stored],
        Lines(shown, stored),
        last=range(len(stored)) if last is None else last,
        follows=follows,
    )


def line(number: int, what: str = "message") -> str:
    """A message of which no word is in another one."""
    return f"{'ua'[number % 2]}: {what}{number} x{number}{what} y{number}{what}"


def log(size: int) -> list[str]:
    return [line(n) for n in range(size)]


SIZES = st.integers(4, 30)


@given(size=SIZES, more=st.integers(0, 6), follows=st.booleans())
def test_a_window_that_has_grown(size: int, more: int, follows: bool) -> None:
    """Rule: all rows in order, then what is new; nothing leaves and nothing is in doubt."""
    found = lay(log(size + more), log(size), follows=follows)
    assert found == MatchResult((*range(size), *[None] * more))


@given(data=st.data(), size=SIZES)
def test_a_window_that_has_moved_on(data: st.DataObject, size: int) -> None:
    """Rule: the rows that it still shows, then what is new; what slid out of it stays."""
    start = data.draw(st.integers(0, size - 2))
    found = lay(log(size + 3)[start:], log(size))
    assert found == MatchResult((*range(start, size), None, None, None))


@given(data=st.data(), size=st.integers(12, 30))
def test_a_run_that_was_left_out(data: st.DataObject, size: int) -> None:
    """Rule: one exchange that is missing was removed; a longer run only saves room, and so does a marked gap."""
    start = data.draw(st.integers(2, size - 8))
    length = data.draw(st.integers(1, 6))
    kept = [n for n in range(size) if not start <= n < start + length]
    found = lay([line(n) for n in kept], log(size))
    is_exchange = length == 1 or (length == 2 and start % 2 == 0)
    assert found.rows == tuple(kept)
    assert found.gone == (dict.fromkeys(range(start, start + length), "removed") if is_exchange else {})
    marked = [*log(size)[:start], "u: some were left out", *log(size)[start + length :]]
    assert not lay(marked, log(size), range(size)).gone or not is_exchange


@given(data=st.data(), size=SIZES)
def test_edits_between_anchors_are_versions(data: st.DataObject, size: int) -> None:
    """Rule: other words between equal messages with the same roles are versions, however many and however unlike."""
    edited = data.draw(st.sets(st.integers(1, size - 2)))
    window = [line(n, "other") if n in edited else line(n) for n in range(size)]
    found = lay(window, log(size))
    assert (found.rows, found.versions) == (tuple(range(size)), frozenset(edited))
    assert (found.gone, found.likely, found.ambiguous) == ({}, 0, 0)


def test_words_that_are_alike_are_a_version_wherever_nothing_else_decides() -> None:
    window = [*log(4), "s: by the way", "u: message4 x4message z4", "a: done with it"]
    found = lay(window, [*log(4), "u: message4 x4message y4message"])
    assert (found.rows, found.versions, found.likely) == ((0, 1, 2, 3, None, 4, None), frozenset({5}), 1)


def test_behind_new_messages_likeness_alone_decides_nothing() -> None:
    """Rule: where nothing certain follows, only the same words in another frame are a row behind something new."""
    window = [*log(4), "u: by the way", "u: message4 x4message z4", "a: done with it"]
    found = lay(window, [*log(4), "u: message4 x4message y4message"])
    assert (found.rows, found.gone) == ((0, 1, 2, 3, None, None, None), {4: "branch"})


@given(data=st.data(), size=st.integers(5, 20))
def test_a_message_that_has_moved_keeps_its_row(data: st.DataObject, size: int) -> None:
    """Rule: what crosses the longest chain is moved, not new; no row leaves."""
    source = data.draw(st.integers(0, size - 1))
    target = data.draw(st.integers(0, size - 1).filter(lambda n: abs(n - source) > 1))
    order = [n for n in range(size) if n != source]
    order.insert(target, source)
    found = lay([line(n) for n in order], log(size))
    assert (found.rows, found.gone, found.versions) == (tuple(order), {}, frozenset())
    assert [found.rows[w] for w in found.moved] == [source]


@given(data=st.data(), size=st.integers(6, 20))
def test_rows_shown_as_one_and_one_shown_as_several(data: st.DataObject, size: int) -> None:
    """Rule: consecutive rows of one speaker in one message, or the other way round, are those rows."""
    start, length = data.draw(st.integers(2, size - 3)), data.draw(st.integers(2, 4))
    parts = [f"u: piece{n} of{n} it{n}" for n in range(length)]
    whole = "u: " + " ".join(part[3:] for part in parts)
    before, after = log(size)[:start], log(size)[start:]
    merged = lay([*before, whole, *after], [*before, *parts, *after])
    assert merged.rows == (*range(start), start, *range(start + length, size + length))
    assert (merged.cuts, merged.gone, merged.likely) == (frozenset({start}), {}, 1)
    split = lay([*before, *parts, *after], [*before, whole, *after])
    assert split.rows == (*range(start), *[start] * length, *range(start + 1, size + 1))
    assert (split.cuts, split.gone, split.likely) == (frozenset(range(start, start + length)), {}, length)


@given(data=st.data(), size=SIZES, follows=st.booleans())
def test_a_branch_leaves_everything_behind_it(data: st.DataObject, size: int, follows: bool) -> None:
    """Rule: where the host went on differently, all that was shown behind that point leaves."""
    keep = data.draw(st.integers(2, size - 1))
    window = [*log(size)[:keep], *(line(keep + n + 1, "other") for n in range(data.draw(st.integers(1, 3))))]
    found = lay(window, log(size), follows=follows)
    assert found.rows == (*range(keep), *[None] * (len(window) - keep))
    assert found.gone == dict.fromkeys(range(keep, size), "branch")
    shorter = lay(log(size)[:keep], log(size), follows=follows)
    assert shorter == MatchResult(tuple(range(keep)))


@given(data=st.data(), size=SIZES)
def test_a_system_message_that_comes_and_goes(data: st.DataObject, size: int) -> None:
    """Rule: it is new at its place; when it is gone it leaves as transient, and nothing else does."""
    at = data.draw(st.integers(1, size))
    rows = [*log(size)[:at], "s: retrieved for you", *log(size)[at:]]
    assert lay(rows, log(size)).rows == (*range(at), None, *range(at, size))
    found = lay([*log(size), line(size)], rows)
    assert found.gone == {at: "transient"}
    moved = lay([*log(size), line(size), "s: retrieved for you"], rows)
    assert (moved.rows[-1], moved.gone) == (at, {})


@given(size=SIZES, more=SIZES)
def test_nothing_in_common(size: int, more: int) -> None:
    """Rule: all of it is new, and no row leaves."""
    stored = [*log(size), "u: again"]
    found = lay([line(n, "strange") for n in range(more)], stored, range(size // 2, size + 1))
    assert set(found.rows) == {None}
    assert (found.gone, found.versions, found.likely, found.ambiguous) == ({}, frozenset(), 0, 0)


def test_short_and_shortened_messages_move_with_their_neighbours() -> None:
    """Rule: a run that was moved is one run: nothing in it is new or in doubt."""
    rows = [*log(4), "u: yes", line(5), "t: one two three four", line(7), *log(12)[8:]]
    moved = [*rows[4:6], "t: one two three [cut]", rows[7]]
    found = lay([*moved, *rows[:4], *rows[8:]], rows)
    assert found.rows == (4, 5, 6, 7, 0, 1, 2, 3, *range(8, 12))
    assert found.versions == frozenset({2})
    assert (found.ambiguous, dict(found.gone)) == (0, {})


def test_a_short_text_before_its_later_neighbour_has_moved_on() -> None:
    """Rule: a window that begins with "thanks" and what followed the second one begins there; nothing was deleted."""
    rows = ["u: thanks", line(1), "u: thanks", *log(9)[3:]]
    assert lay([*rows[2:], line(9)], rows, follows=True) == MatchResult((*range(2, 9), None))


def test_a_translation_after_an_unchanged_beginning_is_versions() -> None:
    """Rule: tool results and very short texts may be unchanged; a longer text may not."""
    rows = ["u: yes", *log(6)[1:], "t: nothing"]
    loud = ["u: yes", *(f"{text[:3]}{text[3:].upper()}" for text in rows[1:6]), "t: nothing"]
    assert lay(loud, rows, follows=True).rows == tuple(range(7))
    assert lay([*loud[:4], "u: other words", "a: of a branch"], rows, follows=True).gone


def test_a_system_prompt_and_a_word_of_long_ago_anchor_nothing() -> None:
    stored = ["s: be kind", "u: thanks", *log(10)]
    assert lay(["s: be kind", "u: thanks", "u: another matter"], stored, range(4, 12)).gone == {}
    assert set(lay(["u: thanks", "u: another matter"], stored, range(4, 12)).rows) == {None}


def test_a_short_run_behind_strangers_is_said_again() -> None:
    """Rule: two short messages anchor a window only at its beginning, or where they stood; not behind new ones."""
    stored = [line(0), "a: go", "t: done", line(1)]
    found = lay([line(3), "t: nothing", "a: go", "t: done", line(5)], stored)
    assert (set(found.rows), found.ambiguous, found.gone) == ({None}, 0, {})
    assert lay([line(2), "a: go", "t: done", line(5)], stored).rows == (None, 1, 2, None)


def test_the_newest_word_follows_a_summary_of_its_host_and_no_tool_result() -> None:
    stored = [*log(3), "u: ok"]
    assert lay([line(7), "u: ok", line(9)], stored).rows == (None, 3, None)
    assert set(lay(["t: other", "u: ok", line(9)], stored).rows) == {None}
    assert set(lay([line(5), line(7), "u: ok", line(9)], stored).rows) == {None}


def test_of_equally_similar_rows_the_one_next_to_the_anchor_is_meant() -> None:
    """Rule: where the window has moved on, what is certain stands behind the gap."""
    stored = ["u: at nine thanks", line(3), "u: at ten thanks", line(5), line(7)]
    found = lay(["u: at some thanks", line(5), line(7), line(8)], stored, [1, 2, 3, 4])
    assert found.rows == (2, 3, 4, None)


def test_an_answer_in_place_of_another_one_replaces_it_behind_an_edit() -> None:
    """Rule: a host that shows another message there does not only save room."""
    stored = ["u: the first question of all", line(1), "u: ok"]
    found = lay(["u: the first request of all", "a: done", "u: ok", line(3)], stored)
    assert (found.rows, found.gone) == ((0, None, 2, None), {1: "removed"})


def test_a_word_or_two_speak_against_no_message_that_says_more() -> None:
    """Rule: a window that begins with the newest row goes on from it, whatever short run of long ago is said again."""
    found = lay([line(9), "a: go", "t: done", line(2)], [line(0), "a: go", "t: done", line(9)])
    assert (found.rows, found.moved, found.ambiguous) == ((3, None, None, None), frozenset(), 0)


def test_of_short_words_those_hold_that_a_window_goes_on_with() -> None:
    """Rule: the answer behind left out tool rounds is its row; what is new behind it is new, though short."""
    stored = [line(0), line(1), "a: go", "t: done", "a: run", "t: ok", "a: yes"]
    found = lay([line(0), "a: yes", line(2), "a: go", "t: ok"], stored, follows=True)
    assert (found.rows, found.gone) == ((0, 6, None, None, None), {})


def test_a_short_word_behind_a_reduction_is_certain_and_behind_an_edit_is_open() -> None:
    """Rule: where an edited message stands before them, the same words may have been said anew."""
    stored = ["u: this is a long question", "a: ok", line(2), line(4)]
    cut = lay(["u: this is a long question [cut]", "a: ok", line(6)], stored, follows=True)
    edited = lay(["u: this is no long question", "a: ok", line(6)], stored, follows=True)
    assert cut.rows == edited.rows == (0, 1, None)
    assert (cut.ambiguous, edited.ambiguous) == (0, 1)


def test_a_word_or_two_behind_a_gap_make_no_version_of_unlike_words() -> None:
    """Rule: they may be said again behind another answer, which is new then; a system message is no answer."""
    stored = [line(0), "a: fine", "u: ok", "a: no"]
    found = lay([line(0), line(1, "other"), "u: ok", "a: no"], stored, follows=True)
    assert (found.rows, found.versions, found.ambiguous) == ((0, None, 2, 3), frozenset(), 2)
    stored[1] = "s: be kind to all"
    assert lay([line(0), "s: be short", "u: ok", "a: no"], stored, follows=True).versions == {1}


def test_a_word_of_the_last_window_before_strangers_is_new() -> None:
    """Rule: nothing else is known, so it is said again; alone it is a piece of the last window."""
    stored = [*log(4), "u: yes", line(5)]
    found = lay(["u: yes", line(7, "strange"), line(8, "strange")], stored)
    assert (set(found.rows), found.ambiguous) == ({None}, 0)
    assert lay(["u: yes"], stored).rows == (4,)


def test_all_in_other_words_is_no_edit_of_a_first_message_that_is_hardly_alike() -> None:
    """Rule: an edit of the first message, from where the host went on, needs as much likeness as any first message."""
    stored = ["u: no way at all", *(line(n) for n in range(1, 6))]
    translated = ["u: no way at most", *(line(n, "other") for n in range(1, 6))]
    assert lay(translated, stored).rows == tuple(range(6))


def test_an_id_decides_before_all_words() -> None:
    stored = [MatchedMessage(text.encode(), "user") for text in ("one", "two", "three")]
    shown = [MatchedMessage(b"three", "user", 0), MatchedMessage(b"one", "user", 2)]
    found = match(shown, stored, Lines(["u: three", "u: one"], ["u: one", "u: two", "u: three"]), last=range(3))
    assert (found.rows, found.versions) == ((0, 2), frozenset({0, 1}))


def test_of_equal_rows_the_one_that_was_shown_is_meant() -> None:
    """Rule: an older one that the host had left out before is not shown again in its place."""
    stored = [line(0), "u: so", "a: fine", line(2), "a: fine", "u: ok"]
    found = lay([line(0), "a: fine", "u: ok", line(7)], stored, [0, 3, 4, 5], follows=True)
    assert found.rows == (0, 4, 5, None)


TEXTS = st.sampled_from(("u: ok", "a: ok", "u: a longer question", "a: a longer answer", "s: be kind", "t: result one"))


@given(shown=st.lists(TEXTS, max_size=12), stored=st.lists(TEXTS, max_size=12), data=st.data())
def test_what_holds_whatever_repeats(shown: list[str], stored: list[str], data: st.DataObject) -> None:
    """Rule: a row is one message, in order but for what is moved; a row that is shown stays; the answer is the same."""
    last = sorted(data.draw(st.sets(st.integers(0, max(0, len(stored) - 1))))) if stored else []
    follows = data.draw(st.booleans())
    found = lay(shown, stored, last, follows=follows)
    assert found == lay(shown, stored, last, follows=follows)
    rows = [row for w, row in enumerate(found.rows) if row is not None and w not in found.cuts]
    assert len(rows) == len(set(rows))
    ordered = [row for w, row in enumerate(found.rows) if row is not None and w not in {*found.moved, *found.cuts}]
    assert ordered == sorted(ordered)
    assert not set(found.gone) & {row for row in found.rows if row is not None}
    for w, row in enumerate(found.rows):
        assert row is None or shown[w][0] == stored[row][0]
        assert (row is not None and w not in found.cuts and shown[w] != stored[row]) == (w in found.versions)


@given(data=st.data(), size=st.integers(6, 20))
def test_more_and_less_are_the_same_seen_from_either_side(data: st.DataObject, size: int) -> None:
    """Rule: with longer runs put in, the pairs are those of the other direction."""
    at, length = data.draw(st.integers(2, size - 2)), data.draw(st.integers(3, 6))
    longer = [*log(size)[:at], *(line(n, "other") for n in range(length)), *log(size)[at:]]
    there, back = lay(longer, log(size)), lay(log(size), longer)
    assert {(w, s) for w, s in enumerate(there.rows) if s is not None} == {
        (s, w) for w, s in enumerate(back.rows) if s is not None
    }


@pytest.mark.parametrize("missing", [0, 10])
def test_long_gaps_are_compared_near_their_place_only(missing: int) -> None:
    """Rule: what 2,000 unlike messages cost grows with their number, not with its square."""
    size = 2_000
    stored = log(size)
    window = [line(n) if n % 1_000 < 2 else line(n, "other") for n in range(size)]
    del window[500 : 500 + missing]
    pair = Lines(window, stored)
    found = match(
        [MatchedMessage(text.encode(), ROLES[text[0]]) for text in window],
        [MatchedMessage(text.encode(), ROLES[text[0]]) for text in stored],
        pair,
        last=range(size),
    )
    assert found.rows[1_000 - missing] == 1_000
    assert pair.compared < 200 * size


@given(data=st.data(), before=st.lists(st.sampled_from((b"a", b"b")), max_size=12))
def test_the_overlap_of_repeats_is_the_longest(data: st.DataObject, before: list[bytes]) -> None:
    """Oracle: all beginnings that are an end, tried one after the other."""
    shown = data.draw(st.lists(st.sampled_from((b"a", b"b")), max_size=12))
    borders = [n for n in range(1, min(len(shown), len(before)) + 1) if shown[:n] == before[len(before) - n :]]
    size, in_doubt = overlap(shown, before)
    assert size == max(borders, default=0)
    assert (in_doubt > 0) <= bool(borders)
    assert in_doubt <= size
    if len(borders) > 1:
        assert in_doubt >= size - borders[0]


@pytest.mark.parametrize(
    ("first", "is_abandoned", "row"),
    [("u: one way home now", False, 2), ("u: two roads there", False, None), ("u: two roads there", True, None)],
)
def test_a_word_behind_a_message_of_another_branch_belongs_to_that_branch(
    first: str, is_abandoned: bool, row: int | None
) -> None:
    """The word stands as far behind what is certain in both branches; the user message before it decides."""
    stored = ["u: one way home", "a: hm", "u: ok"]
    shown = [first, "a: so", "u: ok", "a: and on from here"]
    found = match(
        [MatchedMessage(text.encode(), ROLES[text[0]], is_short=len(text) < 12) for text in shown],
        [MatchedMessage(text.encode(), ROLES[text[0]]) for text in stored],
        Lines(shown, stored),
        last=range(3),
        follows=True,
        is_abandoned=lambda n: is_abandoned and n == 0,
    )
    assert found.rows[2] == row


def test_a_result_behind_an_edited_message_is_no_version_of_the_one_before() -> None:
    stored = ["u: look into the first folder", "a: ls", "t: nothing"]
    edited = "u: look into the second folder"
    assert lay([edited, "a: ls", "t: nothing"], stored, follows=True).rows == (0, 1, 2)
    found = lay([edited, "a: ls", "t: three files"], stored, follows=True)
    assert (found.rows[2], found.ambiguous) == (None, 1)

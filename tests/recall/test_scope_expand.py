"""The words behind a summary."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput, GrantError, NotFound
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.expand import ExpandRequest, expand
from lossless.recall.results import MAX_RESULT_CHARS, message_text, parse_references
from lossless.recall.scope import Caller, Scope, resolve_scope, whole_archive
from lossless.testing.strategies import nasty_text
from tests.recall.archives import NOW, folded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.recall.expand import ExpandedPiece, Expansion
    from lossless.store.archive import Archive


def opened(archive: Archive, *ids: str, cursor: str | None = None, scope: Scope | None = None, **how: Any) -> Expansion:
    request = ExpandRequest(parse_references(ids, kinds=("summary", "message")), **how)
    return expand(archive, request, scope or whole_archive(), NOW, cursor)


def texts(archive: Archive, message_ids: Iterable[int]) -> list[str]:
    return [message_text(stored.message) for stored in archive.messages.many(list(message_ids))]


def joined(pages: Iterable[Expansion]) -> dict[str, str]:
    """The text of each thing from all its pieces; fails when a piece repeats or leaves a gap."""
    whole: dict[str, str] = {}
    ends: dict[str, ExpandedPiece] = {}
    for page in pages:
        for piece in page.pieces:
            assert piece.start == len(whole.get(piece.id, ""))
            whole[piece.id] = whole.get(piece.id, "") + piece.text
            ends[piece.id] = piece
    assert all(piece.end == piece.total for piece in ends.values())
    return whole


def forward(archive: Archive, first: Expansion, cap: int) -> list[Expansion]:
    pages = [first]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(opened(archive, cursor=cursor, token_cap=cap))
        assert pages[-1].pieces
    return pages


# --- what comes back ----------------------------------------------------------------------------------


def test_a_leaf_gives_the_text_of_its_messages_in_order() -> None:
    archive = folded().archive
    leaf = folded().leaves[1]
    found = opened(archive, leaf, token_cap=100_000)
    ids = archive.summaries.message_ids(leaf)
    assert [piece.id for piece in found.pieces] == [f"msg#{id_}" for id_ in ids]
    assert [piece.text for piece in found.pieces] == texts(archive, ids)
    assert all(piece.under == leaf for piece in found.pieces)
    assert not found.truncated
    assert str(found) == found.text.rstrip("\n")


def test_a_condensed_summary_gives_its_sources_one_layer_down() -> None:
    archive, top = folded().archive, folded().top
    sources = archive.summaries.get(top).source_ids
    found = opened(archive, top, token_cap=100_000)
    assert tuple(piece.id for piece in found.pieces) == sources
    assert [piece.text for piece in found.pieces] == [kept.content for kept in archive.summaries.many(sources)]
    deeper = opened(archive, top, max_depth=2, token_cap=100_000)
    assert set(sources) < set(deeper.ids)
    assert {piece.level for piece in deeper.pieces} == {1, 2}
    assert all(piece.kind == "summary" for piece in deeper.pieces)


def test_every_message_below_is_reached_once_when_messages_are_asked_for() -> None:
    archive, top = folded().archive, folded().top
    depth = archive.summaries.get(top).depth
    cap = 3_000
    pages = forward(archive, opened(archive, top, max_depth=depth + 1, include_messages=True, token_cap=cap), cap)
    whole = joined(pages)
    said_ids = sorted(int(id_[4:]) for id_ in whole if id_.startswith("msg#"))
    below = [leaf for leaf in folded().leaves if archive.listings.is_below(leaf, [top])]
    assert said_ids == sorted(id_ for leaf in below for id_ in archive.summaries.message_ids(leaf))
    assert [whole[f"msg#{id_}"] for id_ in said_ids] == texts(archive, said_ids)
    assert all(page.tokens <= cap for page in pages)


def test_what_is_named_twice_or_below_another_is_read_once() -> None:
    archive, top, leaf = folded().archive, folded().top, folded().leaves[0]
    found = opened(archive, top, leaf, leaf, max_depth=9, token_cap=100_000)
    assert len(found.ids) == len(found.pieces)
    assert f"msg#{archive.summaries.message_ids(leaf)[0]}" in found.ids


def test_messages_by_id() -> None:
    archive = folded().archive
    found = opened(archive, "msg#40", "msg#7", token_cap=100_000)
    assert [piece.text for piece in found.pieces] == texts(archive, [40, 7])


def test_a_text_is_never_longer_than_a_tool_may_return(engine: lossless.Engine) -> None:
    engine.append(lossless.Session(key="k"), [{"role": "user", "content": f"{n} " + "word " * 3_000} for n in range(9)])
    found = opened(engine.archive, *(f"msg#{n}" for n in range(1, 10)), token_cap=10**6)
    assert found.cursor
    assert len(str(found)) <= MAX_RESULT_CHARS


# --- around a message ---------------------------------------------------------------------------------


@pytest.mark.parametrize("message_id", [1, 100, 239, 240])
def test_around_a_message_stand_its_neighbours(message_id: int) -> None:
    archive = folded().archive
    found = opened(archive, around=message_id, token_cap=600)
    ids = [int(piece.id[4:]) for piece in found.pieces]
    assert message_id in ids
    assert ids == list(range(ids[0], ids[-1] + 1))
    assert found.tokens <= 600
    assert opened(archive, f"msg#{message_id}", token_cap=600).pieces == found.pieces
    earlier = [found]
    while (cursor := earlier[0].previous) is not None:
        earlier.insert(0, opened(archive, cursor=cursor, token_cap=600))
    later = forward(archive, found, 600)
    whole = joined([*earlier, *later[1:]])
    reached = [int(id_[4:]) for id_ in whole]
    assert reached == list(range(max(1, message_id - 100), min(240, message_id + 100) + 1))
    assert list(whole.values()) == texts(archive, reached)


def test_around_a_message_of_a_summary() -> None:
    archive, top = folded().archive, folded().top
    leaf = folded().leaves[2]
    ids = archive.summaries.message_ids(leaf)
    middle = ids[len(ids) // 2]
    found = opened(archive, top, around=middle, token_cap=400)
    assert f"msg#{middle}" in found.ids
    assert {piece.under for piece in found.pieces} == {leaf}
    with pytest.raises(BadInput, match="msg#240 is not below"):
        opened(archive, top, around=240)


def test_a_hit_that_is_too_long_is_begun(engine: lossless.Engine) -> None:
    said_ = ["before", "x" * 4_000, "after"]
    engine.append(lossless.Session(key="k"), [{"role": "user", "content": text} for text in said_])
    found = opened(engine.archive, around=2, token_cap=100)
    assert [piece.id for piece in found.pieces] == ["msg#2"]
    assert found.previous
    assert opened(engine.archive, cursor=found.previous, token_cap=100).ids == ("msg#1",)
    assert "characters 0 to" in found.text


# --- pages --------------------------------------------------------------------------------------------


@cache
def odd() -> Archive:
    """Short, long, empty and wide messages."""
    engine = lossless.open(f"{mkdtemp(prefix='lossless-')}/lcm.db", background=False)
    some = ["a", "数据库" * 90, "x" * 900, "line\n" * 60, "😀" * 40, "b", "тест " * 80, "end"]
    engine.append(lossless.Session(key="k"), [{"role": "user", "content": text} for text in some])
    thought: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
    }
    engine.append(lossless.Session(key="k"), [thought, {"role": "user", "content": "last"}])
    return engine.archive


@given(cap=st.integers(24, 400), middle=st.integers(1, 10))
def test_pages_join_without_gaps_or_repeats(cap: int, middle: int) -> None:
    archive = odd()
    ids = list(range(1, 11))
    named = [f"msg#{id_}" for id_ in ids]
    pages = forward(archive, opened(archive, *named, token_cap=cap), cap)
    assert list(joined(pages).values()) == texts(archive, ids)
    assert all(page.tokens <= cap and page.tokens == sum(piece.tokens for piece in page.pieces) for page in pages)
    assert all(estimate_tokens(page.text) <= page.tokens for page in pages)
    centred = opened(archive, around=middle, token_cap=cap)
    earlier: list[Expansion] = [centred]
    while (cursor := earlier[0].previous) is not None:
        earlier.insert(0, opened(archive, cursor=cursor, token_cap=cap))
        assert earlier[0].pieces
        assert earlier[0].tokens <= cap
    both = [*earlier, *forward(archive, centred, cap)[1:]]
    assert list(joined(both).values()) == texts(archive, ids)


def test_a_cap_that_holds_nothing_says_so() -> None:
    found = opened(odd(), "msg#3", "msg#4", token_cap=2)
    assert found.pieces == ()
    assert "too small" in str(found)
    assert found.cursor
    assert opened(odd(), cursor=found.cursor, token_cap=500).pieces[0].id == "msg#3"


@settings(max_examples=40)
@given(st.text() | nasty_text())
def test_no_cursor_raises_anything_unexpected(cursor: str) -> None:
    with pytest.raises(BadInput):
        opened(odd(), cursor=cursor)


def test_a_cursor_that_somebody_changed_is_refused() -> None:
    good = {"ids": ["msg#1", "msg#3"], "d": 1, "m": 0, "a": 0, "at": "msg#3", "in": "", "o": 0, "b": 0}
    assert opened(odd(), cursor=results.encode_cursor("expand", good)).ids == ("msg#3",)
    wrong: list[tuple[str, Any]] = [
        ("ids", ["nonsense"]), ("ids", [1]), ("ids", []), ("d", "1"), ("a", -1), ("a", 2**70), ("at", "msg#9"),
        ("at", "msg#x"), ("in", "sum_1"), ("o", -1), ("b", None), ("ids", ["file_1"]), ("ids", ["msg#77"]),
    ]  # fmt: skip
    for name, value in wrong:
        with pytest.raises((BadInput, NotFound)):
            opened(odd(), cursor=results.encode_cursor("expand", good | {name: value}))
    far = results.encode_cursor("expand", good | {"o": 10**12})
    assert opened(odd(), cursor=far).pieces == ()


# --- scope and grants ---------------------------------------------------------------------------------


def test_nothing_to_expand_is_an_error() -> None:
    with pytest.raises(BadInput, match="nothing to expand"):
        opened(odd())
    with pytest.raises(BadInput, match="at most 64 ids"):
        opened(odd(), *(f"msg#{n}" for n in range(1, 99)))


def test_what_is_out_of_scope_is_not_opened() -> None:
    kept = folded()
    foreign = Scope("conversation", (kept.other_id,))
    for ids, around in (((kept.top,), None), (("msg#1",), None), ((), 1), (("sum_made_up",), None)):
        with pytest.raises(NotFound, match="Not found in this session scope"):
            opened(kept.archive, *ids, around=around, scope=foreign)
    cursor = opened(kept.archive, kept.top, token_cap=200, max_depth=9).cursor
    with pytest.raises(NotFound):
        opened(kept.archive, cursor=cursor, scope=foreign)


def granted(**terms: Any) -> tuple[Scope, str]:
    kept = folded()
    given_ = {"conversation_ids": (kept.conversation_id,)} | terms
    grant = recall_scope.issue_grant(kept.archive, "main", "agent:main:subagent:e", NOW, **given_)
    return resolve_scope(kept.archive, Caller(grant_id=grant.id), NOW), grant.id


@given(caps=st.lists(st.integers(1, 700), min_size=1, max_size=6), cap=st.integers(1, 2_000), depth=st.integers(1, 4))
def test_a_grant_is_charged_for_what_is_returned(caps: list[int], cap: int, depth: int) -> None:
    kept = folded()
    scope, grant_id = granted(token_cap=cap)
    returned = 0
    cursor: str | None = None
    for asked in caps:
        left = cap - returned
        with suppress(GrantError):
            found = opened(kept.archive, kept.top, cursor=cursor, scope=scope, token_cap=asked, max_depth=depth)
            assert found.tokens <= min(asked, left)
            returned += found.tokens
            cursor = found.cursor
        stored = kept.archive.guards.grant(grant_id)
        assert stored
        assert stored.tokens_used == returned <= cap


def test_a_grant_that_is_used_up_gives_nothing() -> None:
    kept = folded()
    scope, grant_id = granted(token_cap=50)
    with kept.archive.writing():
        kept.archive.guards.charge_grant(grant_id, 50, NOW)
    with pytest.raises(GrantError, match="Expansion authorization failed: the token budget of 50 is used up"):
        opened(kept.archive, kept.leaves[0], scope=scope)


def test_a_grant_bounds_the_depth() -> None:
    kept = folded()
    scope, _ = granted(max_depth=1, token_cap=10**6)
    found = opened(kept.archive, kept.top, scope=scope, max_depth=9, token_cap=10**6)
    assert {piece.level for piece in found.pieces} == {1}
    scope, _ = granted(max_depth=0)
    with pytest.raises(GrantError, match="no expansion"):
        opened(kept.archive, kept.top, scope=scope)


def test_a_grant_bounds_what_is_below_its_summaries() -> None:
    kept = folded()
    scope, _ = granted(summary_ids=(kept.leaves[0],), token_cap=10**6)
    inside = kept.archive.summaries.message_ids(kept.leaves[0])
    assert opened(kept.archive, kept.leaves[0], scope=scope).pieces
    found = opened(kept.archive, around=inside[-1], scope=scope, token_cap=10**5)
    assert [piece.id for piece in found.pieces] == [f"msg#{id_}" for id_ in inside]
    for ids, around in (((kept.leaves[1],), None), ((kept.top,), None), ((), inside[-1] + 1)):
        with pytest.raises(GrantError, match="not in the grant"):
            opened(kept.archive, *ids, around=around, scope=scope)


def test_a_grant_that_ended_meanwhile_gives_nothing() -> None:
    kept = folded()
    scope, _ = granted()
    recall_scope.end_child_grants(kept.archive, "agent:main:subagent:e", NOW)
    with pytest.raises(GrantError, match="revoked"):
        opened(kept.archive, kept.top, scope=scope)
    assert scope.grant
    with pytest.raises(GrantError, match="no grant"):
        opened(kept.archive, kept.top, scope=replace(scope, grant=replace(scope.grant, id="grant_gone")))

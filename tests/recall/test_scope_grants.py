"""Leave to read, as rows."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lossless.errors import GrantError
from lossless.recall import scope
from lossless.store.archive import Archive
from tests.recall.archives import NOW

if TYPE_CHECKING:
    import lossless
    from lossless.store.state import Grant


def issued(archive: Archive, holder: str = "child", **terms: Any) -> Grant:
    return scope.issue_grant(archive, "parent", holder, NOW, **({"conversation_ids": (1,)} | terms))


def test_a_grant_outlives_the_process(path: str) -> None:
    with Archive.open(path) as archive:
        grant = issued(archive, summary_ids=("sum_1",))
        assert grant.id.startswith("grant_")
        assert len(grant.id) == len("grant_") + 12
    with Archive.open(path) as archive:
        assert archive.guards.grant(grant.id) == grant == archive.guards.grant_of("child", NOW)
        assert (grant.token_cap, grant.max_depth) == (4000, 3)
        assert grant.expires_at == NOW + timedelta(minutes=5)


def test_a_valid_grant_goes_before_an_ended_one(engine: lossless.Engine) -> None:
    archive = engine.archive
    newest = scope.issue_grant(archive, "parent", "child", NOW + timedelta(seconds=1), (2,))
    scope.end_child_grants(archive, "child", NOW)
    valid = issued(archive)
    held = archive.guards.grant_of("child", NOW)
    assert held
    assert held.id == valid.id != newest.id


def test_the_first_end_counts(engine: lossless.Engine) -> None:
    grant = issued(engine.archive)
    scope.end_child_grants(engine.archive, "child", NOW + timedelta(seconds=1))
    scope.end_child_grants(engine.archive, "child", NOW + timedelta(seconds=9), deleted=True)
    ended = engine.archive.guards.grant(grant.id)
    assert ended
    assert ended.revoked_at == NOW + timedelta(seconds=1)
    assert ended.holder is None
    assert engine.archive.guards.grant_of("child", NOW) is None


def test_what_is_not_valid(engine: lossless.Engine) -> None:
    expired, never = issued(engine.archive, ttl=timedelta(0)), issued(engine.archive, ttl=timedelta(-5))
    for grant, reason in ((None, "this delegated session has no grant"), (expired, "the grant has expired")):
        with pytest.raises(GrantError, match=f"^Expansion authorization failed: {reason}$"):
            scope.check_grant(grant, NOW)
    assert never.expires_at == never.created_at


def test_charging_stops_at_the_cap_and_at_the_end(engine: lossless.Engine) -> None:
    archive = engine.archive
    grant = issued(archive, token_cap=100)
    with archive.writing():
        assert archive.guards.charge_grant(grant.id, 60, NOW)
        assert not archive.guards.charge_grant(grant.id, 41, NOW)
        assert not archive.guards.charge_grant(grant.id, 1, grant.expires_at)
        assert archive.guards.charge_grant(grant.id, 40, NOW)
    stored = archive.guards.grant(grant.id)
    assert stored
    assert (stored.tokens_used, stored.remaining) == (100, 0)


def test_many_readers_of_one_grant_never_get_more_than_it_gives(path: str) -> None:
    with Archive.open(path) as archive:
        grant = issued(archive, token_cap=100)
        got: list[int] = []

        def read() -> None:
            for _ in range(20):
                try:
                    got.append(
                        scope.read_and_charge(archive, grant, NOW, lambda left: min(7, left or 0), lambda taken: taken)
                    )
                except GrantError:
                    return

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = archive.guards.grant(grant.id)
        assert stored
        assert sum(got) == stored.tokens_used == 100


def test_a_child_gets_no_more_than_its_parent_has(engine: lossless.Engine) -> None:
    archive = engine.archive
    top = scope.issue_for_child(archive, "agent:main:main", "first", (1, 2), 4000, NOW)
    assert (top.conversation_ids, top.token_cap, top.max_depth) == ((1, 2), 4000, 3)
    with archive.writing():
        archive.guards.charge_grant(top.id, 3_900, NOW)
    below = scope.issue_for_child(archive, "first", "second", (9,), 4000, NOW + timedelta(minutes=1))
    assert (below.conversation_ids, below.token_cap, below.max_depth) == ((1, 2), 100, 2)
    assert below.expires_at == top.expires_at
    last = below
    for name in ("third", "fourth", "fifth"):
        last = scope.issue_for_child(archive, last.holder or "", name, (), 4000, NOW)
    assert last.max_depth == 0
    scope.end_child_grants(archive, "first", NOW)
    with pytest.raises(GrantError, match="revoked"):
        scope.issue_for_child(archive, "first", "late", (1,), 10, NOW)


def test_what_ended_long_ago_is_swept(engine: lossless.Engine) -> None:
    archive = engine.archive
    old = issued(archive)
    ended = issued(archive, "other", ttl=timedelta(days=9))
    scope.end_child_grants(archive, "other", NOW)
    scope.recursion_reason(archive, "child", "question", NOW)
    issued(archive, "third")
    assert archive.guards.grant(old.id)
    later = NOW + timedelta(hours=2)
    kept = scope.issue_grant(archive, "parent", "new", later, (1,))
    assert archive.guards.grant(old.id) is None
    assert archive.guards.grant(ended.id) is None
    assert archive.guards.grant(kept.id)
    with archive.writing():
        assert archive.guards.take_lease("compaction:1", "me", NOW, timedelta(0))
        archive.guards.sweep_grants(later, later, "expand_query:")
        assert archive.guards.take_lease("compaction:1", "me", NOW, timedelta(0))


def test_the_same_refused_question_again_is_told_apart(path: str) -> None:
    with Archive.open(path) as archive:
        first = scope.recursion_reason(archive, "child", "what?", NOW)
        other = scope.recursion_reason(archive, "child", "why?", NOW)
    with Archive.open(path) as archive:
        again = scope.recursion_reason(archive, "child", "what?", NOW)
    assert first == "depth_cap"
    assert other == "depth_cap"
    assert again == "idempotent_reentry"
    with Archive.open(path, read_only=True) as archive:
        assert scope.recursion_reason(archive, "child", "what?", NOW) == "depth_cap"


def test_one_question_at_a_time_and_a_dead_one_runs_out(engine: lossless.Engine) -> None:
    archive, length = engine.archive, timedelta(seconds=30)
    with scope.answer_slot(archive, "a", lambda: NOW, length) as first:
        assert first
        with scope.answer_slot(archive, "a", lambda: NOW, length) as second:
            assert not second
        with scope.answer_slot(archive, "b", lambda: NOW, length) as other:
            assert other
        with scope.answer_slot(archive, "a", lambda: NOW + length, length) as after_a_crash:
            assert after_a_crash
    with pytest.raises(ValueError, match="boom"), scope.answer_slot(archive, "a", lambda: NOW, length):
        raise ValueError("boom")
    with scope.answer_slot(archive, "a", lambda: NOW, length) as free:
        assert free

"""Who sees which conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import BadInput, GrantError, NotFound
from lossless.recall import scope as recall_scope
from lossless.recall.scope import NO_CONVERSATION, Caller, is_subagent_key, resolve_scope, whole_archive

from .archives import NOW

if TYPE_CHECKING:
    from lossless.store.archive import Archive

CHILD = lossless.Session(key="agent:main:subagent:1f")


def say(engine: lossless.Engine, key: str | None, id: str | None = None, text: str = "hello") -> int:
    """Say something in a session; its conversation."""
    report = engine.append(lossless.Session(key=key, id=id), [{"role": "user", "content": text}])
    assert report.conversation_id
    return report.conversation_id


def ids(archive: Archive, caller: Caller, **where: int | bool) -> tuple[int, ...] | None:
    return resolve_scope(archive, caller, NOW, **where).conversation_ids  # type: ignore[arg-type]


def test_a_session_sees_its_family_newest_first(engine: lossless.Engine) -> None:
    session = lossless.Session(key="agent:main:main")
    first = say(engine, "agent:main:main")
    other = say(engine, "agent:main:other")
    second = engine.reset(session).id
    scope = resolve_scope(engine.archive, Caller(session), NOW)
    assert (scope.kind, scope.conversation_ids, scope.warning) == ("family", (second, first), None)
    assert scope.allows(first)
    assert not scope.allows(other)
    assert str(scope) == f"session family {second}, {first}"


def test_a_session_without_a_key_sees_its_run(engine: lossless.Engine) -> None:
    mine = say(engine, None, "run-1")
    say(engine, None, "run-2")
    assert ids(engine.archive, Caller(lossless.Session(id="run-1"))) == (mine,)


def test_an_explicit_conversation_goes_first(engine: lossless.Engine) -> None:
    say(engine, "a")
    other = say(engine, "b")
    caller = Caller(lossless.Session(key="a"))
    assert ids(engine.archive, caller, conversation_id=other, all_conversations=True) == (other,)
    assert ids(engine.archive, caller, all_conversations=True) is None
    with pytest.raises(NotFound):
        ids(engine.archive, caller, conversation_id=99)


def test_each_run_of_a_cron_job_stands_alone(engine: lossless.Engine) -> None:
    key = "agent:main:cron:job"
    say(engine, key, "run-1")
    second = say(engine, key, "run-2")
    assert ids(engine.archive, Caller(lossless.Session(key=key, id="run-2"))) == (second,)


def test_the_running_session_wins_over_a_stale_key(engine: lossless.Engine) -> None:
    stale = say(engine, "agent:main:old", "run-1")
    running = say(engine, "agent:main:new", "run-2")
    scope = resolve_scope(engine.archive, Caller(lossless.Session(key="agent:main:old", id="run-2")), NOW)
    assert scope.conversation_ids == (running,)
    assert scope.warning is not None
    assert "agent:main:old" in scope.warning
    assert ids(engine.archive, Caller(lossless.Session(key="agent:main:old", id="run-1"))) == (stale,)
    assert ids(engine.archive, Caller(lossless.Session(key="agent:main:old", id="unknown"))) == (stale,)


@pytest.mark.parametrize("session", [None, lossless.Session(key="nobody"), lossless.Session(id="nobody")])
def test_without_a_conversation_the_caller_is_told_what_to_do(
    engine: lossless.Engine, session: lossless.Session | None
) -> None:
    say(engine, "somebody")
    with pytest.raises(BadInput) as caught:
        resolve_scope(engine.archive, Caller(session), NOW)
    assert str(caught.value) == NO_CONVERSATION
    assert ids(engine.archive, Caller(session), all_conversations=True) is None


def test_a_delegated_session_sees_its_grant_and_nothing_else(engine: lossless.Engine) -> None:
    granted, foreign = say(engine, "a"), say(engine, "b")
    own = say(engine, CHILD.key)
    archive, caller = engine.archive, Caller(CHILD)
    with pytest.raises(GrantError, match="Expansion authorization failed: this delegated session has no grant"):
        resolve_scope(archive, caller, NOW)
    grant = recall_scope.issue_grant(archive, "a", CHILD.name, NOW, (granted,))
    assert ids(archive, caller) == ids(archive, caller, all_conversations=True) == (granted,)
    assert ids(archive, caller, conversation_id=granted) == (granted,)
    for other in (foreign, own, 99):
        with pytest.raises(GrantError, match="not in the delegated scope"):
            resolve_scope(archive, caller, NOW, conversation_id=other)
    scope = resolve_scope(archive, Caller(grant_id=grant.id), NOW)
    assert scope.grant == grant
    assert str(scope) == f"granted {granted}"
    with pytest.raises(GrantError, match="unknown grant"):
        resolve_scope(archive, Caller(grant_id="grant_made_up"), NOW)


def test_a_grant_that_is_over_leaves_nothing_to_see(engine: lossless.Engine) -> None:
    granted, archive = say(engine, "a"), engine.archive
    recall_scope.issue_grant(archive, "a", CHILD.name, NOW, (granted,), ttl=timedelta(minutes=1))
    with pytest.raises(GrantError, match="Expansion authorization failed: the grant has expired"):
        resolve_scope(archive, Caller(CHILD), NOW + timedelta(minutes=1))
    recall_scope.end_child_grants(archive, CHILD.name, NOW)
    with pytest.raises(GrantError, match="Expansion authorization failed: the grant was revoked"):
        resolve_scope(archive, Caller(CHILD), NOW)
    plain = lossless.Session(key="agent:main:helper")
    recall_scope.issue_grant(archive, "a", plain.name, NOW, (granted,), ttl=timedelta(0))
    with pytest.raises(GrantError):
        resolve_scope(archive, Caller(plain), NOW, all_conversations=True)


def test_all_conversations_in_words() -> None:
    assert str(whole_archive()) == "all conversations"
    assert not whole_archive().is_single


@pytest.mark.parametrize("key", [None, "", "subagent", "agent:main:main", "agent:subagent:x:y", "agent:main:subagent"])
def test_what_is_no_key_of_a_sub_agent(key: str | None) -> None:
    assert not is_subagent_key(key)

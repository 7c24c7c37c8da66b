"""What a policy hides is as if it were not there, whatever a caller asks for and names."""

from __future__ import annotations

import json
from functools import cache
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput, BadSetting, NotFound
from lossless.model.conversations import Session
from lossless.recall.scope import Caller, issue_for_child, recall_reach, resolve_scope, visible_conversations
from lossless.recall.tools import Toolbox
from lossless.testing import VirtualClock

from .archives import NOW, SETTINGS

if TYPE_CHECKING:
    from lossless.recall.scope import RecallReach
    from lossless.store.archive import Archive

#: Each session with its project; the mark stands in everything that it says.
SESSIONS = {
    "quince": Session(key="claude-code:w:1", id="run-1", project="/home/me/ferry"),
    "medlar": Session(key="claude-code:w:2", id="run-2", project="/home/me/ferry"),
    "damson": Session(key="claude-code:x:3", id="run-3", project="/home/me/harbour"),
    "bullace": Session(key="agent:main:main", id="run-4"),
    "sloe": Session(key="agent:main:other", id="run-5"),
    "loquat": Session(key="agent:support:main", id="run-6"),
}
#: What each reaches of the others.
PROJECTS = [{"quince", "medlar"}, {"damson"}, {"bullace", "sloe"}, {"loquat"}]
AGENTS = [{"quince", "medlar", "damson"}, {"bullace", "sloe"}, {"loquat"}]


@cache
def archive_of_marks() -> tuple[Archive, dict[str, int], tuple[str, ...]]:
    """An archive of six folded conversations, their numbers, and every id in it."""
    folder = mkdtemp(prefix="lossless-")
    engine = lossless.open(f"{folder}/lcm.db", SETTINGS, clock=VirtualClock(), background=False)
    numbers = {}
    for mark, session in SESSIONS.items():
        lines = [f"{mark} turn {n}: the harbour crane lifted crate {n} for {mark} on the pier." for n in range(24)]
        chat = [{"role": "user" if n % 2 == 0 else "assistant", "content": line} for n, line in enumerate(lines)]
        log = f"```\n{mark} log of the harbour crane\n```\n" + f"{mark} line\n" * 30_000
        chat.append({"role": "user", "content": log})
        report = engine.append(session, chat)
        engine.compact(session, budget=4_000, force=True)
        assert report.conversation_id
        numbers[mark] = report.conversation_id
    archive = engine.archive
    rows = engine.sql("SELECT message_id AS id FROM messages", limit=10_000)
    names = [f"msg#{row['id']}" for row in rows]
    names += [row["id"] for row in engine.sql("SELECT summary_id AS id FROM summaries")]
    files = [row["id"] for row in engine.sql("SELECT file_id AS id FROM large_files")]
    assert len(files) >= len(SESSIONS)
    return archive, numbers, (*names, *files)


def box_for(reach: RecallReach) -> Toolbox:
    archive, _, _ = archive_of_marks()
    return Toolbox(archive, lossless.Settings(recall_scope=reach), lambda: NOW)


def within_reach(mark: str, reach: str) -> set[str]:
    groups = {"session": [{name} for name in SESSIONS], "project": PROJECTS, "agent": AGENTS, "all": [set(SESSIONS)]}
    return next(group for group in groups[reach] if mark in group)


WHERE = {
    "conversationId": st.integers(1, len(SESSIONS) + 1),
    "allConversations": st.booleans(),
}
WORDS = st.sampled_from(["harbour crane", "crate 7", "turn", "pier|log", ".*", *(f"{mark} 3" for mark in SESSIONS)])
TOOLS = ("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query", "lcm_recall", "lcm_recent", "lcm_status")


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A call of any tool, with ids from anywhere and all flags."""
    ids = st.sampled_from(archive_of_marks()[2])
    some = st.lists(ids, max_size=3)
    tool = draw(st.sampled_from(TOOLS))
    options: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "lcm_grep": {
            "pattern": WORDS,
            "mode": st.sampled_from(["regex", "full_text"]),
            "scope": st.sampled_from(["messages", "summaries", "both", "files"]),
            "sort": st.sampled_from(["recency", "relevance", "hybrid"]),
        },
        "lcm_describe": {"id": ids},
        "lcm_expand": {"summaryIds": some, "query": WORDS, "includeMessages": st.booleans(), "around": ids},
        "lcm_expand_query": {"prompt": WORDS, "query": WORDS, "summaryIds": some},
        "lcm_recall": {"question": WORDS},
        "lcm_recent": {"when": st.sampled_from(["today", "yesterday", "last week", "since 2020-01-01"])},
        "lcm_status": {},
    }
    asked = {name: draw(values) for name, values in options[tool].items() if draw(st.booleans()) or name in _NEEDED}
    if tool != "lcm_status":
        asked |= {name: draw(values) for name, values in WHERE.items() if draw(st.booleans())}
    return tool, asked


_NEEDED = ("pattern", "id", "prompt", "question", "when")


@settings(max_examples=120, deadline=None)
@given(
    mark=st.sampled_from(sorted(SESSIONS)),
    reach=st.sampled_from(["session", "project", "agent"]),
    asked=st.lists(calls(), min_size=1, max_size=3),
)
def test_no_sequence_of_calls_returns_a_byte_from_outside(
    mark: str, reach: RecallReach, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    box, caller = box_for(reach), Caller(SESSIONS[mark])
    hidden = set(SESSIONS) - within_reach(mark, reach)
    said: list[str] = []
    for tool, args in asked:
        words = json.dumps(args)
        result = box.call(tool, args, caller)
        told = result.text + json.dumps(result.details)
        said += [name for name in hidden if name in told and name not in words]
        assert not result.is_error or "Traceback" not in told
        if cursor := result.details.get("cursor"):
            told = box.call(tool, args | {"cursor": cursor}, caller).text
            said += [name for name in hidden if name in told and name not in words]
    assert said == []


@pytest.mark.parametrize("reach", ["session", "project", "agent", "all"])
@pytest.mark.parametrize("mark", sorted(SESSIONS))
def test_each_reach_shows_what_belongs_together(mark: str, reach: RecallReach) -> None:
    archive, numbers, _ = archive_of_marks()
    box, caller = box_for(reach), Caller(SESSIONS[mark])
    shown = box.call("lcm_grep", {"pattern": "crate 7 ", "allConversations": True}, caller)
    found = {hit["conversationId"] for hit in shown.details["matches"]}
    assert found == {numbers[name] for name in within_reach(mark, reach)}
    for name, number in numbers.items():
        if name in within_reach(mark, reach):
            scope = resolve_scope(archive, caller, NOW, conversation_id=number, settings=box.settings)
            assert scope.conversation_ids == (number,)
        else:
            with pytest.raises(NotFound) as hidden:
                resolve_scope(archive, caller, NOW, conversation_id=number, settings=box.settings)
            with pytest.raises(NotFound) as unknown:
                resolve_scope(archive, caller, NOW, conversation_id=99, settings=box.settings)
            assert str(hidden.value) == str(unknown.value).replace("99", str(number))


def test_the_owner_sees_all_and_nobody_sees_nothing() -> None:
    archive, numbers, _ = archive_of_marks()
    policy = lossless.Settings(recall_scope="project")
    assert visible_conversations(archive, Caller(is_owner=True), policy) is None
    assert visible_conversations(archive, Caller(), policy) == ()
    with pytest.raises(BadInput, match="recallScope is 'project' here"):
        resolve_scope(archive, Caller(), NOW, all_conversations=True, settings=policy)
    fresh = Caller(Session(id="not stored yet", project="/home/me/ferry"))
    assert set(visible_conversations(archive, fresh, policy) or ()) == {numbers["quince"], numbers["medlar"]}


def test_rules_hold_for_hosts_and_agents() -> None:
    rules = ("agent:support:**=session", "claude-code:**=project")
    policy = lossless.Settings(recall_scope_overrides=rules)
    reaches = {mark: recall_reach(policy, Caller(session)) for mark, session in SESSIONS.items()}
    assert set(reaches.values()) == {"session", "project", "all"}
    assert (reaches["loquat"], reaches["quince"], reaches["sloe"]) == ("session", "project", "all")
    archive, numbers, _ = archive_of_marks()
    by_run = Caller(Session(id="run-1"))
    assert set(visible_conversations(archive, by_run, policy) or ()) == {numbers["quince"], numbers["medlar"]}
    for wrong in ("agent:**", "=all", "agent:**=some"):
        with pytest.raises(BadSetting, match="recallScopeOverrides"):
            lossless.Settings(recall_scope_overrides=(wrong,))


def test_a_delegated_reader_sees_no_more_than_its_parent() -> None:
    archive, numbers, _ = archive_of_marks()
    box, parent = box_for("project"), SESSIONS["quince"]
    assert parent.key
    issue_for_child(archive, parent.key, "agent:main:subagent:9", [numbers["quince"]], 4_000, NOW)
    child = Caller(Session(key="agent:main:subagent:9"))
    for args in ({"allConversations": True}, {"conversationId": numbers["medlar"]}, {}):
        told = box.call("lcm_grep", {"pattern": "crate 7 ", **args}, child)
        assert "medlar" not in told.text


def test_what_is_near_goes_before_the_same_elsewhere() -> None:
    box = box_for("all")
    for mark in ("quince", "sloe", "loquat"):
        asked = {"question": "crate 7 harbour crane", "allConversations": True}
        found = box.call("lcm_recall", asked, Caller(SESSIONS[mark]))
        assert mark in found.details["evidence"][0]["text"]


def test_a_limited_archive_indexes_everything() -> None:
    """What another program writes is indexed whole, whoever searches first."""
    engine = lossless.open(f"{mkdtemp(prefix='lossless-')}/lcm.db", SETTINGS, clock=VirtualClock(), background=False)
    first = engine.append("a", [{"role": "user", "content": "an apple"}]).conversation_id
    second = engine.append("b", [{"role": "user", "content": "a pear"}]).conversation_id
    archive = engine.archive
    with archive.writing():
        archive.index.empty()
        archive.database.run("UPDATE message_extras SET digest = NULL")
        archive.index.mark_caught_up(0)
    assert first
    limited = archive.within((first,))
    assert limited.within((second or 0,)).messages.many([1, 2]) == []
    assert limited.catch_up() == 2
    assert [hit.id for hit in engine.grep("pear").hits] == [2]
    engine.close()


def test_a_time_is_answered_from_within_reach() -> None:
    asked = {"when": "since 2020-01-01", "allConversations": True}
    for reach in ("session", "project", "agent"):
        told = box_for(reach).call("lcm_recent", asked, Caller(SESSIONS["quince"])).text
        seen = {mark for mark in SESSIONS if mark in told}
        assert "quince" in seen
        assert seen <= within_reach("quince", reach)

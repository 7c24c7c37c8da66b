"""Opening one thing by its id."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput, GrantError, NotFound
from lossless.model.context import ContextItem, MessageItem, NewSummary, SummaryItem
from lossless.model.messages import StoredFile
from lossless.model.tokens import estimate_tokens
from lossless.recall import scope as recall_scope
from lossless.recall.describe import (
    DescribeRequest,
    Description,
    describe,
    format_id_ranges,
    is_binary,
    read_file_page,
)
from lossless.recall.expand import ExpandRequest, expand
from lossless.recall.results import TextBudget, parse_reference
from lossless.recall.scope import Caller, Scope, resolve_scope, whole_archive
from lossless.store.files import LargeFileRows
from lossless.testing.strategies import nasty_text

from .archives import NOW, Folded, folded

if TYPE_CHECKING:
    from lossless.model.messages import JsonObject
    from lossless.store.state import Grant

FILE = "file_0123456789abcdef"


def summary(archive: Folded, id_: str, request: DescribeRequest | None = None) -> Description:
    return describe(archive.archive, id_, archive.scope, NOW, request)


# --- summaries --------------------------------------------------------------------------------------


def test_a_summary_says_what_it_was_made_of_and_where_it_was_used() -> None:
    archive = folded()
    for id_ in (*archive.leaves, *archive.condensed):
        found = summary(archive, id_)
        known = found.details["summary"]
        assert all(id_ in summary(archive, source).details["summary"]["childIds"] for source in known["parentIds"])
        assert bool(known["messageIds"]) == (id_ in archive.leaves)
        assert found.page.text == archive.archive.summaries.get(id_).content


def test_the_text_of_a_summary() -> None:
    archive = folded()
    text = str(summary(archive, archive.top))
    lines = text.splitlines()
    kept = archive.archive.summaries.get(archive.top)
    assert lines[0] == f"LCM_SUMMARY {archive.top}"
    assert re.fullmatch(
        rf"meta conv=\d+ kind=condensed depth=3 tok={kept.tokens} descTok={kept.descendant_tokens} "
        rf"srcTok={kept.source_message_tokens} desc={kept.descendant_count} range=\S+\.\.\S+ budgetCap=4000",
        lines[1],
    )
    assert lines[2].startswith(f"parents {' '.join(kept.source_ids)} ")
    assert lines[3].startswith("children none ")
    assert lines[4] == "manifest"
    assert text.endswith(f"content\n{kept.content}")


def test_the_manifest_lists_the_subtree_below_with_costs() -> None:
    archive = folded()
    found = summary(archive, archive.top)
    branches, known = found.details["manifest"]["nodes"], found.details["summary"]
    assert (branches[0]["depthFromRoot"], branches[0]["parentSummaryId"]) == (0, None)
    assert len(branches) == known["descendantCount"] + 1
    assert {branch["summaryId"] for branch in branches if branch["depth"] == 0} <= set(archive.leaves)
    for before, branch in pairwise(branches):
        assert branch["depthFromRoot"] <= before["depthFromRoot"] + 1
        small = branch["tokenCount"] + branch["descendantTokenCount"]
        assert branch["costs"] == {"summariesOnly": small, "withMessages": small + branch["sourceMessageTokenCount"]}
    children = [branch["summaryId"] for branch in branches if branch["parentSummaryId"] == archive.top]
    assert children == known["parentIds"]
    line = str(found).splitlines()[5]
    assert re.fullmatch(
        r"d0 sum_\w+ k=condensed tok=\d+ descTok=\d+ srcTok=\d+ desc=\d+ child=\d+ range=\S+ "
        r"cost\[s=\d+,m=\d+\] budget\[s=(in|over),m=(in|over)\]",
        line,
    )


def test_branches_are_held_against_the_cap() -> None:
    archive = folded()
    wide = summary(archive, archive.top, DescribeRequest(token_cap=10**6))
    assert "over" not in str(wide).split("content")[0]
    assert wide.details["manifest"]["budgetSource"] == "request"
    narrow = summary(archive, archive.top, DescribeRequest(default_cap=1))
    assert "=in" not in str(narrow).split("\ncontent\n")[0]
    assert narrow.details["manifest"]["budgetSource"] == "config_default"


def test_a_manifest_is_bounded(engine: lossless.Engine) -> None:
    report = engine.append(lossless.Session(key="k"), [{"role": "user", "content": "x" * 9_000} for _ in range(150)])
    assert report.conversation_id
    leaves = [f"sum_leaf{n}" for n in range(150)]
    middle = [f"sum_middle{n}" for n in range(10)]
    made: list[tuple[str, int, list[ContextItem]]] = []
    made += [(id_, 0, [MessageItem(0, n + 1, "user", 9, n + 1)]) for n, id_ in enumerate(leaves)]
    made += [(id_, 1, [SummaryItem(0, leaf, 0, 9) for leaf in leaves[n::10]]) for n, id_ in enumerate(middle)]
    made += [("sum_top", 2, [SummaryItem(0, id_, 1, 9) for id_ in middle])]
    with engine.archive.writing():
        for id_, depth, sources in made:
            engine.archive.summaries.insert(report.conversation_id, sources, NewSummary(id_, depth, "y", 1, "m"), NOW)
    found = describe(engine.archive, "sum_top", whole_archive(), NOW)
    assert [branch["summaryId"] for branch in found.details["manifest"]["nodes"]] == ["sum_top", *middle]
    assert found.details["manifest"]["omitted"] == 150
    assert "... 150 more below" in str(found)
    below = describe(engine.archive, middle[3], whole_archive(), NOW)
    assert [branch["summaryId"] for branch in below.details["manifest"]["nodes"]] == [middle[3], *leaves[3::10]]


# --- messages ---------------------------------------------------------------------------------------


def test_a_message_is_shown_in_full_with_its_neighbours() -> None:
    archive = folded()
    found = describe(archive.archive, "msg#12", archive.scope, NOW)
    known = found.details["message"]
    assert (known["before"], known["after"], known["summaryId"]) == (11, 13, archive.leaves[0])
    text = str(found)
    assert text.startswith(f"LCM_MESSAGE msg#12\nmeta conv={archive.conversation_id} seq=12 role=user ")
    assert f"leaf {archive.leaves[0]}\nneighbours before=msg#11 after=msg#13\n" in text
    assert text.endswith(archive.text_of(12))


def test_tool_calls_and_results_are_shown_reasoning_is_not(engine: lossless.Engine) -> None:
    session = lossless.Session(key="k")
    call: JsonObject = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I wonder whether", "signature": "x"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
        ],
    }
    answer = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "port = 8443"}]
    result: JsonObject = {"role": "user", "content": answer}
    engine.append(session, [call, result])
    shown = str(describe(engine.archive, "1", whole_archive(), NOW))
    assert 'Tool call (read): {"path":"a.py"}' in shown
    assert "- reasoning, not shown\n- text, 12 characters\n- tool call read (toolu_1)\n" in shown
    assert "I wonder" not in shown
    assert "port = 8443" in str(describe(engine.archive, "msg#2", whole_archive(), NOW))


@settings(max_examples=12)
@given(text=nasty_text(20).filter(str.strip), cap=st.integers(2, 40))
def test_pages_of_a_message_join_to_the_whole(text: str, cap: int) -> None:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(lossless.Session(key="k"), [{"role": "user", "content": text}])
        whole = engine.archive.messages.get(1).message.content
        pieces: list[str] = []
        cursor: str | None = None
        while cursor is not None or not pieces:
            found = describe(engine.archive, "msg#1", whole_archive(), NOW, DescribeRequest(cap, cursor=cursor))
            assert 0 < estimate_tokens(found.page.text) <= cap
            pieces.append(found.page.text)
            cursor = found.page.cursor
        assert "".join(pieces) == whole


# --- scope and grants ---------------------------------------------------------------------------------


def test_what_is_out_of_scope_is_as_if_it_were_not_there() -> None:
    archive = folded()
    foreign = Scope("family", (archive.other_id,))
    for id_ in (archive.top, "msg#1", "sum_made_up", "msg#99999", "file_made_up"):
        with pytest.raises(NotFound, match=f"^Not found in this session scope: {id_}$"):
            describe(archive.archive, id_, foreign, NOW)
    delegated = replace(foreign, kind="grant")
    with pytest.raises(NotFound, match="Not found in the delegated conversation scope"):
        describe(archive.archive, archive.top, delegated, NOW)


def test_source_text_is_charged_to_a_grant_and_summaries_are_not() -> None:
    archive = folded()
    home = (archive.conversation_id,)
    grant = recall_scope.issue_grant(archive.archive, "main", "agent:main:subagent:d1", NOW, home, token_cap=60)
    scope = resolve_scope(archive.archive, Caller(grant_id=grant.id), NOW)
    first = describe(archive.archive, archive.top, scope, NOW)
    manifest = first.details["manifest"]
    assert (manifest["tokenCap"], manifest["budgetSource"]) == (60, "delegated_grant_remaining")
    assert summary_cap(archive, scope, 10) == 10
    assert used(archive, grant) == 0
    second = describe(archive.archive, "msg#1", scope, NOW)
    assert second.page.cursor
    assert used(archive, grant) == estimate_tokens(second.page.text)
    with archive.archive.writing():
        archive.archive.guards.charge_grant(grant.id, 60 - used(archive, grant), NOW)
    with pytest.raises(GrantError, match="the token budget of 60 is used up"):
        describe(archive.archive, "msg#5", scope, NOW)


def summary_cap(archive: Folded, scope: Scope, cap: int) -> int:
    found = describe(archive.archive, archive.top, scope, NOW, DescribeRequest(cap))
    return int(found.details["manifest"]["tokenCap"])


def used(archive: Folded, grant: Grant) -> int:
    stored = archive.archive.guards.grant(grant.id)
    assert stored
    return stored.tokens_used


def test_a_grant_for_some_summaries_opens_only_what_is_below_them() -> None:
    archive = folded()
    inside, outside = archive.leaves[0], archive.leaves[-1]
    grant = recall_scope.issue_grant(
        archive.archive, "main", "agent:main:subagent:d2", NOW, (archive.conversation_id,), summary_ids=(inside,)
    )
    scope = resolve_scope(archive.archive, Caller(grant_id=grant.id), NOW)
    describe(archive.archive, inside, scope, NOW)
    describe(archive.archive, "msg#1", scope, NOW)
    for id_ in (outside, archive.top, f"msg#{archive.archive.summaries.message_ids(outside)[0]}"):
        with pytest.raises(GrantError, match="not in the grant"):
            describe(archive.archive, id_, scope, NOW)


# --- files --------------------------------------------------------------------------------------------


def stored(engine: lossless.Engine, data: bytes | None, **more: str) -> StoredFile:
    """A row for a file in a conversation of its own; its bytes are in the vault, unless there are none."""
    report = engine.append(lossless.Session(key="k"), [{"role": "user", "content": "see the file"}])
    assert report.conversation_id
    at = engine.archive.messages.get(1).created_at
    values = {"storage_uri": "/x", "mime": "text/plain", **more}
    if data is not None and engine.vault:
        values["storage_uri"] = str(engine.vault.write(report.conversation_id, FILE, "txt", data))
    about = ("a.txt", values["mime"], len(data or b""), None, values["storage_uri"], "Two lines.")
    file = StoredFile(FILE, report.conversation_id, *about, at)
    with engine.archive.writing():
        LargeFileRows(engine.archive.database).add([file])
    return file


def test_a_file_is_shown_with_its_content(engine: lossless.Engine) -> None:
    data = b"one\ntwo ```` fence\n"
    stored(engine, data)
    for id_ in (FILE, f"[LCM Tool Output: {FILE} | tool=exec | 19 bytes]"):
        found = describe(engine.archive, id_, whole_archive(), NOW, vault=engine.vault)
        text = str(found)
        assert text.startswith(f"## LCM File: {FILE}\n")
        assert "**Size:** 19 bytes" in text
        assert "Two lines." in text
        assert "`````text\none\ntwo ```` fence\n`````" in text
        assert found.details["content"] == {
            "start": 0, "end": 19, "truncated": False, "available": True, "fromMessage": False,
        }  # fmt: skip


def test_a_file_that_cannot_be_read_is_looked_for_in_its_message(engine: lossless.Engine) -> None:
    file = stored(engine, None)
    assert "Content unavailable" in str(describe(engine.archive, FILE, whole_archive(), NOW, vault=engine.vault))
    with engine.archive.writing():
        LargeFileRows(engine.archive.database).set_stub(1, FILE)
    found = describe(engine.archive, FILE, whole_archive(), NOW)
    assert (found.page.text, found.details["content"]["fromMessage"]) == ("see the file", True)
    assert "The file cannot be read" in str(found)
    assert file.id == found.id


def test_a_stub_is_never_answered_with_a_stub(engine: lossless.Engine) -> None:
    stored(engine, None)
    reference = f"[LCM Tool Output: {FILE} | tool=exec | 9 bytes]\n\nExploration Summary:\nx"
    report = engine.append(lossless.Session(key="k"), [{"role": "user", "content": reference}])
    with engine.archive.writing():
        LargeFileRows(engine.archive.database).set_stub(report.message_ids[0], FILE)
    found = describe(engine.archive, FILE, whole_archive(), NOW)
    assert found.page.text == ""


def test_line_ranges(engine: lossless.Engine) -> None:
    data = "".join(f"line {n} é\n" for n in range(1, 301)).encode()
    stored(engine, data)

    def lines(first: int | None, last: int | None) -> str:
        request = DescribeRequest(start_line=first, end_line=last)
        found = describe(engine.archive, FILE, whole_archive(), NOW, request, engine.vault)
        return found.page.text or str(found.page.note)

    assert lines(2, 3) == "line 2 é\nline 3 é\n"
    assert lines(299, 400) == "line 299 é\nline 300 é\n"
    assert lines(None, 1) == "line 1 é\n"
    assert lines(300, None) == "line 300 é\n"
    assert lines(301, None) == "it has 300 lines"
    with pytest.raises(BadInput, match="endLine"):
        lines(3, 2)


def test_binary_content_is_not_shown(engine: lossless.Engine) -> None:
    stored(engine, b"\x89PNG\0", mime="image/png")
    shown = str(describe(engine.archive, FILE, whole_archive(), NOW, vault=engine.vault))
    assert "Content unavailable: binary" in shown


@given(
    data=st.binary(max_size=400) | nasty_text(60).map(lambda text: text.encode()),
    size=st.integers(4, 64),
    tokens=st.integers(2, 40),
)
def test_pages_of_a_file_join_to_the_whole(data: bytes, size: int, tokens: int) -> None:
    wanted, texts, at = DescribeRequest(max_bytes=size), [], 0
    while True:
        page = read_file_page(FILE, lambda at, most: data[at : at + most], wanted, TextBudget(tokens))
        if is_binary(data):
            assert page.text == ""
            return
        assert page.start == at
        assert page.end - page.start <= size
        assert page.text == data[page.start : page.end].decode("utf-8", "replace")
        texts.append(page.text)
        at = page.end
        if page.cursor is None:
            break
        assert page.end > page.start
        wanted = DescribeRequest(max_bytes=size, cursor=page.cursor)
    assert at == len(data)
    if data.decode("utf-8", "ignore").encode() == data:
        assert "".join(texts) == data.decode()


def test_files_outside_of_the_vault_are_not_read(engine: lossless.Engine) -> None:
    stored(engine, None, storage_uri="/etc/passwd")
    assert "Content unavailable" in str(describe(engine.archive, FILE, whole_archive(), NOW, vault=engine.vault))


# --- small things ---------------------------------------------------------------------------------------


def test_runs_of_ids() -> None:
    assert format_id_ranges([5]) == "msg#5 (1)"
    assert format_id_ranges(range(0, 100, 2)).endswith("and 30 more runs (50)")


def test_a_cursor_of_something_else_is_refused() -> None:
    archive = folded()
    first = expand(
        archive.archive, ExpandRequest((parse_reference(archive.leaves[0]),), token_cap=100), archive.scope, NOW
    )
    for cursor in (first.cursor, "nonsense", "", "e30"):
        with pytest.raises(BadInput, match="cursor"):
            describe(archive.archive, "msg#1", archive.scope, NOW, DescribeRequest(cursor=cursor))

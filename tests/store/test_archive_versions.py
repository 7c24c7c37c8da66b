"""Every wording of a message is kept, exactly and once, whatever order they come in."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless import formats
from lossless.maintenance import repair
from lossless.model.budget import message_budget_tokens
from lossless.model.identity import fingerprint, identity_hash, words_digest
from lossless.store.archive import Archive
from lossless.store.context import item_id
from lossless.store.maintenance.deletion import ArchiveRemover
from lossless.store.messages import NewMessage
from lossless.store.versions import Versions
from lossless.testing.strategies import MESSAGES, hostile_text
from tests.faults import Fault, dump, failing_at, open_engine, problems, statements_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hypothesis.strategies import DrawFn

    from lossless.store.versions import VersionKind

Body = dict[str, Any]
NUMBERS = count()
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lossless.Engine]:
    """One archive for all cases of a property; it is verified at the end."""
    with open_engine(tmp_path_factory.mktemp("versions") / "lcm.db") as engine:
        yield engine
        assert problems(engine) == []


def first(engine: lossless.Engine, body: Body) -> int:
    """Store a message in a session of its own."""
    (message_id,) = engine.append(lossless.Session(key=f"case {next(NUMBERS)}"), [body]).message_ids
    return message_id


def revise(archive: Archive, message_id: int, body: Body) -> bool:
    message = formats.decode(body)
    new = NewMessage(message, identity_hash(message.role, message.content), fingerprint(message), NOW)
    with archive.writing():
        conversation = archive.conversations.get(archive.messages.get(message_id).conversation_id)
        return archive.versions.revise(conversation, message_id, new, NOW)


def keep(archive: Archive, message_id: int, body: Body, kind: VersionKind = "lesser") -> bool:
    message = formats.decode(body)
    with archive.writing():
        return archive.versions.keep(message_id, message, words_digest(message), kind, NOW)


def words_of(archive: Archive, message_id: int) -> list[bytes]:
    """The digests of all wordings, worked out anew from what is stored; the current one last."""
    found = [version.message for version in archive.versions.of(message_id)]
    assert [words_digest(one) for one in found] == [one.digest for one in archive.versions.of(message_id)]
    return [words_digest(one) for one in (*found, archive.messages.get(message_id).message)]


def assistant(format: str, text: str, more: int) -> Body:
    """A message in a format, with something around its text that changes with `more`."""
    call = {"type": "tool_use", "id": "toolu_0123456789ab", "name": "read", "input": {"n": more // 4}}
    if format == "plain":
        return {"role": "assistant", "content": text}
    if format == "usage":
        return {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": {"output": more}}
    if format == "thinking":
        thought = {"type": "thinking", "thinking": f"step {more // 4}", "signature": f"s{more}"}
        return {"role": "assistant", "content": [thought, {"type": "text", "text": text}]}
    return {"role": "assistant", "content": [{"type": "text", "text": text}, call]}


@st.composite
def chains(draw: DrawFn) -> list[Body]:
    """Wordings of one message: growing, shrinking, coming back, and quite different ones."""
    whole = draw(hostile_text()) * draw(st.sampled_from((1, 1, 5, 400)))
    texts = [whole, draw(hostile_text()), whole + draw(hostile_text())]
    found = []
    for _ in range(draw(st.integers(1, 8))):
        text = draw(st.sampled_from(texts))
        cut = text[: draw(st.integers(0, len(text)))]
        format = draw(st.sampled_from(("plain", "usage", "thinking", "call")))
        found.append(assistant(format, draw(st.sampled_from((text, cut))), draw(st.integers(0, 7))))
    return found


def check(archive: Archive, message_id: int, shown: Sequence[Body]) -> None:
    """Every wording that was shown is there once, the last one as the current words."""
    distinct = list(dict.fromkeys(words_digest(formats.decode(body)) for body in shown))
    found = words_of(archive, message_id)
    assert len(found) == len(set(found)), "a wording is there twice"
    assert set(found) == set(distinct)


@given(chain=chains(), kept=chains())
def test_every_wording_is_there_once(shared: lossless.Engine, chain: list[Body], kept: list[Body]) -> None:
    archive = shared.archive
    message_id = first(shared, chain[0])
    shown = [chain[0]]
    for body, lesser in zip(chain[1:], [*kept, *chain], strict=False):
        revise(archive, message_id, body)
        keep(archive, message_id, lesser)
        shown += [body, lesser]
        check(archive, message_id, shown)
        current = archive.messages.get(message_id).message
        assert words_digest(current) == words_digest(formats.decode(body))


@pytest.mark.parametrize("format", MESSAGES)
@given(data=st.data())
def test_versions_of_every_format_come_back_as_they_came(
    shared: lossless.Engine, format: str, data: st.DataObject
) -> None:
    before, after = data.draw(MESSAGES[format]()), data.draw(MESSAGES[format]())
    if formats.decode(before).role != formats.decode(after).role:
        return
    message_id = first(shared, before)
    stored = shared.archive.messages.get(message_id).message
    if revise(shared.archive, message_id, after):
        (version,) = shared.archive.versions.of(message_id)
        assert words_digest(version.message) == words_digest(stored)
        if not formats.decode(after).content.startswith(stored.content):  # else kept as a length, without its frame
            assert repr(version.message.original) == repr(stored.original)
    assert repr(shared.archive.messages.get(message_id).message.original) == repr(after)


def test_the_row_keeps_its_place_and_all_that_follows_from_its_words_follows(tmp_path: Path) -> None:
    session = lossless.Session(key="a")
    with open_engine(tmp_path / "lcm.db") as engine:
        archive = engine.archive
        archive.database.run("CREATE VIRTUAL TABLE messages_fts USING fts5(content, tokenize='porter unicode61')")
    with open_engine(tmp_path / "lcm.db") as engine:
        archive = engine.archive
        ids = engine.append(session, [{"role": "user", "content": f"word{n} " * 40} for n in range(3)]).message_ids
        with archive.writing():
            archive.search.trigrams.create()
            archive.search.trigrams.add([(id_, archive.messages.get(id_).message.content) for id_ in ids])
        before = archive.messages.get(ids[1])
        conversation = archive.conversations.get(before.conversation_id)
        assert revise(archive, ids[1], {"role": "user", "content": "push to the harbour, not to main " * 9})
        after = archive.messages.get(ids[1])
        assert (after.seq, after.created_at, after.entry_id) == (before.seq, before.created_at, before.entry_id)
        assert archive.context_tokens(conversation.id) == archive.context.tokens(conversation.id)
        estimates = {item_id(item): item.budget_tokens for item in archive.context.items(conversation.id)}
        assert estimates[ids[1]] == max(after.message.tokens, message_budget_tokens(after.message))
        assert archive.search.trigrams.having(["harbour"]) == {ids[1]}
        assert archive.search.trigrams.having(["word1"]) == set()
        assert archive.database.rows("SELECT rowid FROM messages_fts('harbour')") == [(ids[1],)]
        assert archive.database.rows("SELECT rowid FROM messages_fts('word1')") == []
        assert problems(engine) == []


def test_another_role_is_another_row(shared: lossless.Engine) -> None:
    message_id = first(shared, {"role": "user", "content": "a"})
    with pytest.raises(ValueError, match="role"):
        revise(shared.archive, message_id, {"role": "assistant", "content": "b"})


def test_an_old_wording_is_recognised(shared: lossless.Engine) -> None:
    message_id = first(shared, {"role": "user", "content": "Do not push to main"})
    revise(shared.archive, message_id, {"role": "user", "content": "push to main"})
    versions = shared.archive.versions
    old = words_digest(formats.decode({"role": "user", "content": "Do not push to main"}))
    assert versions.digests([message_id]) == {message_id: {old}}


def test_a_fault_in_a_revision_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    old = assistant("thinking", "It listens on 8443. " * 300, 1)
    new = assistant("call", "It listens on 9000, as of today.", 2)
    with open_engine(path) as engine:
        message_id = first(engine, old)
        revise(engine.archive, message_id, assistant("thinking", "It listens on 8443. " * 301, 2))
    states = []
    number = 0
    while True:
        with open_engine(path) as engine:
            before = dump(path)
            try:
                with failing_at(engine.archive.database, number):
                    revise(engine.archive, message_id, new)
            except Fault:
                states.append(number)
                assert dump(path) == before
                assert problems(engine) == []
                number += 1
                continue
        break
    assert len(states) > 15
    with open_engine(path) as engine:
        assert len(engine.archive.versions.of(message_id)) == 2
        assert problems(engine) == []


def test_a_streamed_message_costs_little(tmp_path: Path) -> None:
    """Two hundred beginnings each, of some messages: the room beside their final texts, without what is free."""
    texts = [" ".join(f"w{(n * 7919 + m * 104729) % 900}" for m in range(1200)) for n in range(4)]

    def room(name: str, beginnings: int) -> int:
        with open_engine(tmp_path / name) as engine:
            for text in texts:
                step = len(text) // beginnings
                message_id = first(engine, {"role": "assistant", "content": text[:step]})
                for n in range(2, beginnings + 1):
                    cut = text if n == beginnings else text[: n * step]
                    revise(engine.archive, message_id, {"role": "assistant", "content": cut})
            assert ArchiveRemover(engine.archive).give_back() is None
            return engine.archive.listings.size()[0]

    whole, streamed = room("whole.db", 1), room("streamed.db", 200)
    assert streamed - whole < len(texts) * 20_000


def test_a_revision_reads_no_version(tmp_path: Path) -> None:
    """A message that its host decorates in every turn gets more and more of them."""
    with open_engine(tmp_path / "lcm.db") as engine:
        message_id = first(engine, {"role": "user", "content": "at 9:00: hello"})
        revise(engine.archive, message_id, {"role": "user", "content": "at 9:01: hello"})
        new = {"role": "user", "content": "at 9:02: hello"}
        seen = statements_of(engine.archive.database, lambda: revise(engine.archive, message_id, new))
        again = {"role": "user", "content": "at 9:00: hello"}
        known = statements_of(engine.archive.database, lambda: revise(engine.archive, message_id, again))
        assert len(engine.archive.versions.of(message_id)) == 2
    assert (Versions.queries["of"] in seen, Versions.queries["of"] in known) == (False, True)


def test_append_costs_nothing_more(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(lossless.Session(key="a"), [{"role": "user", "content": "one"}])
        seen = statements_of(
            engine.archive.database,
            lambda: engine.append(lossless.Session(key="a"), [{"role": "user", "content": "two"}]),
        )
    assert not [statement for statement in seen if "version" in statement or "stale" in statement]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE message_versions SET body = NULL WHERE body IS NOT NULL",
        "UPDATE message_versions SET body = zeroblob(20) WHERE body IS NOT NULL",
        "UPDATE message_versions SET digest = zeroblob(16) WHERE length IS NOT NULL",
        "UPDATE message_versions SET length = 100000 WHERE length IS NOT NULL",
        "UPDATE message_versions SET length = length - 1 WHERE length IS NOT NULL",
        "UPDATE message_versions SET base_id = 77 WHERE length IS NOT NULL",
        "DELETE FROM message_versions WHERE body IS NOT NULL",
        "DELETE FROM version_index",
    ],
)
def test_verify_names_what_was_changed_or_lost(tmp_path: Path, damage: str) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        message_id = first(engine, {"role": "user", "content": "The ferry leaves"})
        revise(engine.archive, message_id, {"role": "user", "content": "The ferry leaves at nine"})
        revise(engine.archive, message_id, {"role": "user", "content": "No ferry today"})
        assert [version.message.content for version in engine.archive.versions.of(message_id)] == [
            "The ferry leaves",
            "The ferry leaves at nine",
        ]
        assert engine.verify().ok
        engine.archive.database.run(damage)
        assert not engine.verify().ok


def test_digests_of_versions_that_an_older_release_wrote_as_rows_are_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        ids = [first(engine, {"role": "user", "content": f"The ferry {n} leaves at nine"}) for n in range(2)]
        for id_ in ids:
            revise(engine.archive, id_, {"role": "user", "content": "No boat today"})
    digests = "SELECT 'message_versions', json_array(message_id), substr(digest, 17) FROM message_extras"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"INSERT INTO row_digests {digests}")
        connection.execute("UPDATE message_extras SET digest = substr(digest, 1, 16)")
    with open_engine(path) as engine:
        assert engine.verify().ok
        revise(engine.archive, ids[0], {"role": "user", "content": "A boat at ten"})
        assert engine.verify().ok
        left = engine.archive.database.rows("SELECT row_key FROM row_digests WHERE name = 'message_versions'")
        assert left == [(f"[{ids[1]}]",)]
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE message_versions SET at = at + 1")
    with open_engine(path) as engine:
        found = {(problem.table, problem.id) for problem in engine.verify().problems}
        assert found == {("message_versions", f"[{id_}]") for id_ in ids}


def test_an_index_that_was_lost_is_made_again(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        message_id = first(engine, {"role": "user", "content": "The ferry leaves at nine"})
        revise(engine.archive, message_id, {"role": "user", "content": "No boat today"})
        engine.archive.database.run("DELETE FROM version_index")
        repair.apply_reindex(engine.archive)
        assert engine.verify().ok
        repair.apply_reindex(engine.archive, again=True)
        assert engine.verify().ok


def test_summaries_over_a_revised_message_are_stale(tmp_path: Path) -> None:
    session = lossless.Session(key="a")
    with open_engine(tmp_path / "lcm.db") as engine:
        said = [{"role": "user", "content": f"Number {n}: " + "the harbour is closed today. " * 60} for n in range(60)]
        ids = engine.append(session, said).message_ids
        engine.compact(session, budget=4000, force=True)
        archive = engine.archive
        conversation = archive.messages.get(ids[0]).conversation_id
        leaf = archive.summaries.covering([ids[0]])[ids[0]]
        revise(archive, ids[0], {"role": "user", "content": "Number 0: open"})
        with archive.writing():
            marked = archive.summaries.mark_stale([ids[0]], NOW)
        assert leaf in marked
        assert archive.summaries.stale(conversation) == dict.fromkeys(marked, (ids[0],))
        assert engine.verify().ok
        with archive.writing():
            archive.summaries.clear_stale(marked)
        assert archive.summaries.stale(conversation) == {}


def test_an_archive_of_before_is_brought_up_in_place(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        message_id = first(engine, {"role": "user", "content": "The ferry leaves at nine"})
    connection = apsw.Connection(str(path))
    for table in ("message_versions", "stale_summaries", "version_index"):
        connection.execute(f"DROP TABLE {table}")
    for column in ("revised", "likely"):
        connection.execute(f"ALTER TABLE ingest_state DROP COLUMN {column}")
    connection.close()
    with Archive.open(path, read_only=True) as archive:
        assert (archive.versions.of(message_id), archive.ingest.state(1).revised) == ((), 0)
    with open_engine(path) as engine:
        with engine.archive.writing():
            engine.archive.ingest.count(1, NOW, seen=1, replayed=1, revised=2, likely=1)
        assert revise(engine.archive, message_id, {"role": "user", "content": "No ferry today"})
        state = engine.archive.ingest.state(1)
        assert (state.revised, state.likely) == (2, 1)
        assert engine.verify().ok


def test_versions_go_with_their_conversation(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        ids = [first(engine, {"role": "user", "content": f"The ferry {n} leaves at nine"}) for n in range(2)]
        for message_id in ids:
            revise(engine.archive, message_id, {"role": "user", "content": "No boat today"})
        with engine.archive.writing():
            ArchiveRemover(engine.archive).delete([engine.archive.messages.get(ids[0]).conversation_id], NOW)
        assert len(list(engine.archive.versions.each())) == 1
        assert engine.archive.database.row("SELECT count(*) FROM version_index") == (1,)
        assert engine.verify().ok

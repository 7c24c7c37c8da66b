"""What other conversations hold of a transcript is not stored again; what they do not hold is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import Session
from lossless.compaction.run import fold
from lossless.ingest.transcripts.exclusions import match_history
from lossless.maintenance.prune import PruneFilter
from lossless.model.context import NewSummary
from lossless.store.conversations import ConversationHistory, MessageRef
from tests.faults import SESSION, context, problems
from tests.maintenance.keeping import NOW
from tests.maintenance.transcript_files import TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    import lossless


@pytest.fixture
def file(tmp_path: Path) -> TranscriptFile:
    return TranscriptFile(tmp_path / "run.jsonl")


def told(engine: lossless.Engine, session: Session = SESSION) -> list[list[str]]:
    """The words of each conversation of a session, the oldest first."""
    family = sorted(engine.archive.conversations.family(session), key=lambda one: one.id)
    return [[row.message.content for row in engine.archive.messages.in_order(one.id)] for one in family]


def rewritten(file: TranscriptFile, mark: str = "x") -> None:
    """The host writes the file again, each entry under a new id."""
    records = [json.loads(line) for line in file.path.read_text().splitlines()]
    before = None
    for record in records:
        if record["type"] != "session":
            record["id"], record["parentId"] = mark + record["id"], before
            before = record["id"]
    file.path.write_text("".join(json.dumps(record) + "\n" for record in records))
    file.leaf = before
    file.touch()


# --- closed conversations ---


@pytest.mark.parametrize(("old", "new"), [(40, 1), (30, 5), (1, 1), (2, 0)])
def test_a_file_rewritten_after_a_reset_is_known_by_its_words(
    engine: lossless.Engine, file: TranscriptFile, old: int, new: int
) -> None:
    before, after = [f"old {n}" for n in range(old)], [f"new {n}" for n in range(new)]
    file.say_all(*before)
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    file.say_all(*after)
    engine.bootstrap(SESSION, file.path)
    rewritten(file)
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [before, after]
    file.say_all("more")
    engine.after_turn(SESSION, transcript=file.path)
    assert told(engine) == [before, [*after, "more"]]
    assert not problems(engine)


def test_other_words_under_the_id_of_a_closed_row_are_kept_beside_it(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    file.say_all("a", "the port is 8443", "c")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    file.path.write_text(file.path.read_text().replace('"the port is 8443"', '"the port is 9000"'))
    file.say_all("new")
    for _ in range(2):
        engine.bootstrap(SESSION, file.path)
        file.touch()
        assert told(engine) == [["a", "the port is 8443", "c"], ["new"]]
        versions = [one for row in (1, 2, 3) for one in engine.archive.versions.of(row)]
        assert [(one.message_id, one.message.content) for one in versions] == [(2, "the port is 9000")]
    assert not problems(engine)


def test_two_resets_with_a_word_in_between_that_no_transcript_has(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    engine.append(SESSION, [{"role": "user", "content": "not written down"}])
    engine.reset(SESSION)
    file.say_all("c")
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["a", "b"], ["not written down"], ["c"]]


def test_turns_without_ids_are_known_when_the_transcript_shows_them_after_a_reset(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    for text in ("a", "b"):
        file.say_all(text)
        engine.append(SESSION, [json.loads(file.path.read_text().splitlines()[-1])["message"]])
    engine.reset(SESSION)
    file.say_all("c")
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["a", "b"], ["c"]]


def test_a_new_file_that_begins_with_the_same_words_is_another_one(engine: lossless.Engine, tmp_path: Path) -> None:
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for path, texts in ((first, ("hi", "hello", "fix it", "done")), (second, ("hi", "hello", "paint it"))):
        lines = [{"role": "user", "content": text} for text in texts]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    engine.bootstrap(SESSION, first)
    engine.reset(SESSION)
    engine.bootstrap(SESSION, second)
    assert told(engine) == [["hi", "hello", "fix it", "done"], ["hi", "hello", "paint it"]]


def test_ids_that_are_counted_anew_in_a_new_file_are_other_entries(engine: lossless.Engine, tmp_path: Path) -> None:
    first, second = TranscriptFile(tmp_path / "one.jsonl", "h1"), TranscriptFile(tmp_path / "two.jsonl", "h2")
    for n in range(3):
        first.say(f"first {n}", str(n))
    engine.bootstrap(SESSION, first.path)
    engine.reset(SESSION)
    for n in range(3):
        second.say(f"second {n}", str(n))
    engine.bootstrap(SESSION, second.path)
    assert told(engine) == [[f"first {n}" for n in range(3)], [f"second {n}" for n in range(3)]]


def test_a_message_that_the_closed_conversation_lacks_is_stored(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    lines = file.path.read_text().splitlines()
    late = json.dumps({"type": "message", "id": "late", "parentId": "e-a", "message": {"role": "user", "content": "l"}})
    lines[2] = lines[2].replace('"parentId": "e-a"', '"parentId": "late"')
    file.path.write_text("\n".join([*lines[:2], late, *lines[2:]]) + "\n")
    file.touch()
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["a", "b"], ["l"]]


# --- pure ---

TEXTS = st.sampled_from([bytes([n]) * 8 for n in range(1, 4)])


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8), st.booleans())
def test_a_path_that_tells_all_again_in_the_same_seconds(old: list[bytes], new: list[bytes], cut: bool) -> None:
    history = ConversationHistory(
        1, tuple(MessageRef(text, b"id%d" % n, 100 + n) for n, text in enumerate(old)), is_same_file=False
    )
    start = len(old) // 2 if cut else 0
    path = [MessageRef(text, b"new%d" % n, 100 + n) for n, text in enumerate((*old, *new))][start:]
    assert sorted(match_history(path, history, 0, len(path))) == list(range(len(old) - start))


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(TEXTS, min_size=1, max_size=8))
def test_other_seconds_are_other_events(old: list[bytes], new: list[bytes]) -> None:
    history = ConversationHistory(
        1, tuple(MessageRef(text, b"id%d" % n, 100 + n) for n, text in enumerate(old)), is_same_file=True
    )
    path = [MessageRef(text, b"new%d" % n, 200 + n) for n, text in enumerate(new)]
    assert match_history(path, history, 0, len(path)) == {}


# --- forks ---

FORK = Session(key="agent:main:fork")
LONG = "long words of the harbour " * 40


def fork(path: Path, shared: list[tuple[str, str]], own: list[str], parent: str = "header-1") -> TranscriptFile:
    """A fork's file: entries of its parent, and its own."""
    found = TranscriptFile(path, header=None)
    found.write({"type": "session", "version": 3, "id": "forked", "parentSession": parent})
    for text, id_ in shared:
        found.say(text, id_)
    found.at += 10**6
    for n, text in enumerate(own):
        found.say(text, f"own-{n}")
    return found


@pytest.mark.parametrize("renamed", [False, True])
def test_a_fork_keeps_all_its_own_words(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path, renamed: bool
) -> None:
    shared = [f"shared {n}" for n in range(10)]
    file.say_all(*shared)
    engine.bootstrap(SESSION, file.path)
    own = [f"own {n} {LONG}" for n in range(60)]
    copies = [(text, f"{'y-' if renamed else 'e-'}{text}") for text in shared]
    forked = fork(tmp_path / "fork.jsonl", copies, own)
    engine.bootstrap(FORK, forked.path)
    (stored,) = told(engine, FORK)
    assert stored == own
    forked.say("one more", "more")
    engine.bootstrap(FORK, forked.path)
    rewritten(forked)
    engine.bootstrap(FORK, forked.path)
    assert told(engine, FORK) == [[*own, "one more"]]
    assert not problems(engine)


def test_what_the_parent_does_not_hold_is_stored_with_the_fork(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    own = [f"own {n} {LONG}" for n in range(60)]
    shared = [("a", "e-a"), ("b, but other words for it", "e-b"), ("never seen", "e-c")]
    engine.bootstrap(FORK, fork(tmp_path / "fork.jsonl", shared, own).path)
    assert told(engine, FORK) == [["b, but other words for it", "never seen", *own]]


def test_a_parent_on_which_a_fork_relies_is_not_pruned(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    own = [f"own {n} {LONG}" for n in range(60)]
    engine.bootstrap(FORK, fork(tmp_path / "fork.jsonl", [("a", "e-a"), ("b", "e-b")], own).path)
    (parent,) = engine.archive.conversations.family(SESSION)
    plan = engine.admin.prune_plan(PruneFilter(patterns=(SESSION.name,), include_active=True))
    assert (plan.chosen, plan.in_use) == ((), (parent.id,))
    both = engine.admin.prune_plan(PruneFilter(patterns=("**",), include_active=True))
    assert len(both.chosen) == 2
    assert not problems(engine)


# --- deleted for good ---


def prune(engine: lossless.Engine, *, active: bool = False) -> int:
    plan = engine.admin.prune_plan(PruneFilter(patterns=(SESSION.name,), include_active=active))
    return engine.admin.prune(plan, backup=False).messages


def test_what_was_pruned_stays_away_however_the_file_is_rewritten(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    file.say_all("a", "b", "c")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    file.say_all("d")
    engine.bootstrap(SESSION, file.path)
    assert prune(engine) == 3
    file.path.write_text(file.path.read_text().replace('"a"', '"a "'))
    file.say_all("e")
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["d", "e"]]
    rewritten(file)
    file.say_all("f")
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["d", "e", "f"]]
    assert not problems(engine)


def test_a_live_conversation_that_was_pruned_goes_on_with_what_is_new(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    file.say_all("a", "b", "c")
    engine.bootstrap(SESSION, file.path)
    assert prune(engine, active=True) == 3
    file.say_all("d")
    message: Any = json.loads(file.path.read_text().splitlines()[-1])["message"]
    engine.after_turn(SESSION, new_messages=[message], transcript=file.path)
    assert told(engine) == [["d"]]
    engine.bootstrap(SESSION, file.path, again=True)
    assert sorted(told(engine)[0]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("folded", [0, 3, 5])
def test_what_comes_back_stands_before_what_follows_it_and_is_not_folded(
    engine: lossless.Engine, file: TranscriptFile, folded: int
) -> None:
    file.say_all("a", "b", "c")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    file.say_all("d", "e", "f", "g", "h")
    conversation = engine.bootstrap(SESSION, file.path).conversation_id
    assert conversation is not None
    prune(engine)
    summary = NewSummary("sum_0123456789abcdef", 0, "d to h", 1, "by hand", ())
    if folded:
        items = engine.archive.context.items(conversation)[:folded]
        fold(engine.archive, conversation, items, summary, NOW, actor="sweep")
    assert engine.bootstrap(SESSION, file.path, again=True).stored == 3
    assert context(engine) == [*[summary.id][:folded], "a", "b", "c", *"defgh"[folded:]]
    assert told(engine) == [[*"defgh", *"abc"]]
    assert not problems(engine)


def test_what_was_pruned_is_imported_again_when_asked(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    prune(engine, active=True)
    assert engine.bootstrap(SESSION, file.path).stored == 0
    assert engine.bootstrap(SESSION, file.path, again=True).stored == 2
    assert told(engine) == [["a", "b"]]
    engine.bootstrap(SESSION, file.path)
    assert told(engine) == [["a", "b"]]


# --- changed lines of files without ids ---


def plain(path: Path, *texts: str) -> None:
    """A file of plain messages, a user's and an assistant's in turns."""
    lines = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


OLD = ("where does the ferry leave", "from berth 3, at noon", "and when is it back", "at six in the evening")


@pytest.mark.parametrize("places", [{0}, {1}, {2}, {3}, {1, 2}, {1, 3}, {0, 2}, {0, 3}])
@pytest.mark.parametrize("new", [(), ("a new question",), ("a new question", "a new answer", "and thanks")])
def test_a_changed_old_line_of_plain_lines_is_kept_beside_its_row_after_a_reset(
    engine: lossless.Engine, tmp_path: Path, places: set[int], new: tuple[str, ...]
) -> None:
    path = tmp_path / "run.jsonl"
    plain(path, *OLD)
    engine.bootstrap(SESSION, path)
    engine.reset(SESSION)
    changed = [f"{text}, but otherwise" if n in places else text for n, text in enumerate(OLD)]
    for _ in range(2):
        plain(path, *changed, *new)
        engine.bootstrap(SESSION, path)
        assert told(engine) == [list(OLD), list(new)]
        versions = [one for row in range(1, 5) for one in engine.archive.versions.of(row)]
        assert [(one.message_id, one.message.content) for one in versions] == [
            (n + 1, changed[n]) for n in sorted(places)
        ]
    assert context(engine) == list(new)
    assert not problems(engine)

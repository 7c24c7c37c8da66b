"""Exactly once, whatever the host does. Beside each test stands the rule by which its oracle judges.

Each case is a session of its own in one archive, which is verified as a whole at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import Incoming, Session
from tests.faults import contents, context, open_engine, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import lossless
    from lossless.ingest.run import AppendReport

Body = dict[str, Any]


@dataclass
class Desk:
    """An engine that can be closed and opened again, and a fresh session for each case."""

    path: Path
    engine: lossless.Engine
    numbers: Iterator[int] = field(default_factory=count)

    def session(self) -> Session:
        return Session(key=f"agent:main:{next(self.numbers)}")

    def restart(self) -> None:
        self.engine.close()
        self.engine = open_engine(self.path)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    path = tmp_path_factory.mktemp("promises") / "lcm.db"
    desk = Desk(path, open_engine(path))
    yield desk
    found = problems(desk.engine)
    desk.engine.close()
    assert found == []


def said(texts: Sequence[str]) -> list[Body]:
    """Messages with these texts; who speaks follows from the text, so that equal texts are equal messages."""
    return [{"role": "user" if len(text) % 2 else "assistant", "content": text} for text in texts]


def named(texts: Sequence[str], first: int = 0) -> list[Incoming]:
    """The same with entry ids that count up from `first`."""
    return [Incoming(message, entry_id=f"e{n}") for n, message in enumerate(said(texts), first)]


#: Few texts, so that most of them repeat.
LOGS = st.lists(st.sampled_from(("ok", "yes", "go on")), min_size=1, max_size=14)
UNIQUE = st.integers(1, 14).map(lambda size: [f"message {n}" for n in range(size)])


@st.composite
def pieces(draw: st.DrawFn, size: int) -> list[int]:
    """Growing ends that reach `size`."""
    ends = draw(st.lists(st.integers(0, size), max_size=5))
    return sorted({*ends, size})


@given(data=st.data(), log=LOGS)
def test_growing_windows_store_each_message_once(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: after each window that goes on from the last one, the rows are the log, repeats and all.

    In between, any beginning of the log is shown again and the engine is restarted: nothing changes.
    """
    session = desk.session()
    for end in data.draw(pieces(len(log))):
        desk.engine.sync(session, said(log[:end]))
        assert contents(desk.engine, session) == log[:end]
        for stop in data.draw(st.lists(st.integers(0, end), max_size=3)):
            report = desk.engine.sync(session, said(log[:stop]))
            assert (report.stored, report.abandoned) == (0, 0)
        if data.draw(st.integers(0, 9)) == 0:
            desk.restart()
        assert contents(desk.engine, session) == context(desk.engine, session) == log[:end]


@given(data=st.data(), log=LOGS)
def test_windows_with_ids_store_each_message_once(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: with entry ids any window that begins among the stored rows leaves the log up to the farthest end."""
    session, stored = desk.session(), 0
    for _ in range(data.draw(st.integers(1, 8))):
        start = data.draw(st.integers(0, max(0, stored - 1)))
        stop = data.draw(st.integers(start, len(log)))
        desk.engine.sync(session, named(log[start:stop], start))
        stored = max(stored, stop)
        assert contents(desk.engine, session) == context(desk.engine, session) == log[:stored]


@given(data=st.data(), log=LOGS)
def test_appends_with_keys_or_ids_are_stored_once(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: a batch with a key, and a message with an entry id, is stored the first time only."""
    by_key, by_id = desk.session(), desk.session()
    start = 0
    for end in data.draw(pieces(len(log))):
        for _ in range(data.draw(st.integers(1, 3))):
            desk.engine.append(by_key, said(log[start:end]), key=f"turn {end}")
            again = data.draw(st.integers(0, start))
            desk.engine.append(by_id, named(log[again:end], again))
        start = end
    assert contents(desk.engine, by_key) == contents(desk.engine, by_id) == log


@given(data=st.data(), log=LOGS)
def test_sliding_windows_never_store_twice(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: a window that overlaps the last one adds no row that the log does not have; what is missing was counted.

    A window that begins with the whole last one has grown, by definition.
    """
    session, start, last, ambiguous, grew = desk.session(), 0, 0, 0, False
    window: list[str] = []
    for end in data.draw(pieces(len(log))):
        start = data.draw(st.integers(start, max(start, last - 1)))
        grew |= len(window) < end - start and log[start : start + len(window)] == window
        window, last = log[start:end], end
        ambiguous += desk.engine.sync(session, said(window)).ambiguous
        rows = contents(desk.engine, session)
        assert Counter(rows) <= Counter(log[:end])
        assert len(rows) == end or ambiguous or grew
    conversation = desk.engine.archive.conversations.find(session)
    assert conversation is not None
    assert desk.engine.archive.ingest.state(conversation.id).ambiguous == ambiguous


@given(data=st.data(), log=UNIQUE)
def test_truncated_windows_of_distinct_messages_store_all(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: where each text is its own, any window that overlaps the stored rows is understood."""
    session, last = desk.session(), 0
    for end in data.draw(pieces(len(log))):
        start = data.draw(st.integers(0, max(0, last - 1)))
        report = desk.engine.sync(session, said(log[start:end]))
        last = end
        assert (report.ambiguous, report.abandoned) == (0, 0)
        assert contents(desk.engine, session) == context(desk.engine, session) == log[:end]


@given(data=st.data(), log=LOGS)
def test_two_producers_adopt_each_other(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: runtime batches without ids and transcript entries with ids are the same events; the farther one leads."""
    session, runtime, transcript = desk.session(), 0, 0
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            end = data.draw(st.integers(runtime, len(log)))
            desk.engine.append(session, said(log[runtime:end]), key=f"turn {runtime}-{end}")
            runtime = end
        else:
            end = data.draw(st.integers(transcript, len(log)))
            again = data.draw(st.integers(0, transcript))
            desk.engine.append(session, named(log[again:end], again))
            transcript = end
        assert contents(desk.engine, session) == log[: max(runtime, transcript)]


@given(data=st.data(), log=LOGS)
def test_a_window_and_a_transcript_adopt_each_other(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: a growing window without ids and a transcript with ids are the same events."""
    session, window, transcript = desk.session(), 0, 0
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            window = data.draw(st.integers(window, len(log)))
            desk.engine.sync(session, said(log[:window]))
        else:
            end = data.draw(st.integers(transcript, len(log)))
            desk.engine.append(session, named(log[transcript:end], transcript))
            transcript = end
        assert contents(desk.engine, session) == log[: max(window, transcript)]


@given(data=st.data(), with_ids=st.booleans())
def test_branches_store_each_message_once(desk: Desk, data: st.DataObject, with_ids: bool) -> None:
    """Rule: every text is stored once; after a window that went on differently the context is that window.

    A window that is the beginning of the context is a replay and changes nothing. Rows are only ever added. After a
    second return to an old window they would be two conversations.
    """
    verbs = ["grow", "regenerate", "rewind", "return"]
    session, path, shown, paths, numbers = desk.session(), ["q 0"], list[str](), [["q 0"]], count(1)
    before: list[str] = []
    for _ in range(data.draw(st.integers(1, 7))):
        match data.draw(st.sampled_from(verbs)):
            case "grow":
                path = [*path, *(f"m {next(numbers)}" for _ in range(data.draw(st.integers(1, 2))))]
            case "regenerate":
                path = [*path[: data.draw(st.integers(1, len(path)))], f"r {next(numbers)}"]
            case "rewind":
                path = path[: data.draw(st.integers(1, len(path)))]
            case _:
                path = data.draw(st.sampled_from(paths))
                verbs.remove("return")
        window = [Incoming(message, entry_id=message["content"]) for message in said(path)] if with_ids else said(path)
        desk.engine.sync(session, window)
        paths.append(path)
        shown = shown if shown[: len(path)] == path else path
        assert context(desk.engine, session) == shown
        rows = contents(desk.engine, session)
        assert rows[: len(before)] == before
        before = rows
        assert sorted(rows) == sorted({text for path in paths for text in path})


@given(data=st.data(), size=st.integers(3, 12))
def test_rewritten_copies_are_the_same_messages(desk: Desk, data: st.DataObject, size: int) -> None:
    """Rule: no wording is another row. With a host's mark it is kept beside the row, else the row takes it."""
    session = desk.session()
    turn = [_long(n) if n % 3 else _result(n, f"result {n} " * 20) for n in range(size)]
    desk.engine.sync(session, turn)
    rows = contents(desk.engine, session)
    for step in range(data.draw(st.integers(1, 3))):
        window = [_rewritten(message, data.draw(st.integers(0, 3))) for message in turn[:-1]]
        turn = [*turn, {"role": "user", "content": f"next {step}"}]
        report = desk.engine.sync(session, [*window, *turn[-2:]])
        assert (report.stored, report.abandoned) == (1, 0)
        shown = [str(message["content"]) for message in [*window, *turn[-2:]]]
        rows = [row if text.endswith(("]", "/>", "…")) else text for row, text in zip([*rows, ""], shown, strict=True)]
        assert contents(desk.engine, session) == context(desk.engine, session) == rows


def _long(number: int) -> Body:
    words = " ".join(f"word{number}x{n}" for n in range(30))
    return {"role": "assistant" if number % 2 else "user", "content": words}


def _result(number: int, text: str) -> Body:
    return {"role": "tool", "tool_call_id": f"exec:{number}", "content": text}


def _rewritten(message: Body, how: int) -> Body:
    text = str(message["content"])
    if message["role"] == "tool":
        return message | {"content": ("[cleared]", text[:40], text, "<redacted/>")[how]}
    return message | {"content": (text, text[:80] + "…" * (len(text) > 80), f"[12:03] {text}", text)[how]}


@given(data=st.data(), log=UNIQUE)
def test_system_prompts_stand_at_the_head(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: a prompt is stored once for each text; the context is the window, prompts first.

    Prompts that were all that was shown so far stay until others are.
    """
    session, seen, last = desk.session(), set[str](), False
    choices = st.lists(st.sampled_from(("be kind", "be brief", "be exact")), unique=True, max_size=3)
    shown: list[str] = []
    for end in data.draw(pieces(len(log))):
        prompts = data.draw(choices)
        shown = prompts or ([] if last else shown)
        last = bool(prompts and end)
        seen |= set(prompts)
        window: list[Body] = [{"role": "system", "content": text} for text in prompts]
        desk.engine.sync(session, window + said(log[:end]))
        rows = contents(desk.engine, session)
        assert [text for text in rows if not text.startswith("be ")] == log[:end]
        assert sorted(text for text in rows if text.startswith("be ")) == sorted(seen)
        assert context(desk.engine, session) == shown + log[:end]


@given(data=st.data(), log=LOGS)
def test_a_rewritten_suffix_under_new_ids_is_stamped_anew(desk: Desk, data: st.DataObject, log: list[str]) -> None:
    """Rule: the same messages under new ids behind a known one are the same rows, which take the new ids.

    Unless it is one text alone: under a new id that is said again.
    """
    session = desk.session()
    desk.engine.sync(session, named(log))
    keep = data.draw(st.integers(1, len(log)).filter(lambda keep: len(set(log[keep:])) != 1))
    window = named(log[:keep]) + named(log[keep:], 100)
    for _ in range(2):
        report: AppendReport = desk.engine.sync(session, window)
        assert report.stored == 0
        assert contents(desk.engine, session) == log
    conversation = desk.engine.archive.conversations.find(session)
    assert conversation is not None
    stored = desk.engine.archive.messages.in_order(conversation.id)
    assert [message.entry_id for message in stored] == [item.entry_id for item in window]


@given(tokens=LOGS, branch=st.integers(0, 3))
def test_counted_tokens_are_those_of_the_context(desk: Desk, tokens: list[str], branch: int) -> None:
    """Rule: the tokens that ingest counts along are what the items add up to."""
    session = desk.session()
    for window in (tokens, [*tokens, "more"], [*tokens[: branch + 1], "else"], [*tokens, "more", "again"]):
        desk.engine.sync(session, [{"role": "system", "content": f"p{len(window)}"}, *said(window)])
        conversation = desk.engine.archive.conversations.find(session)
        assert conversation is not None
        expected = desk.engine.archive.context.tokens(conversation.id)
        assert desk.engine.archive.context_tokens(conversation.id) == expected


def _speaks(text: str) -> Body:
    return {"role": "user" if text.startswith("u") else "assistant", "content": text}


def test_a_first_message_under_another_id_takes_the_place_of_the_old_one(desk: Desk) -> None:
    session = desk.session()
    for first in ("u0 one0 two0 three0", "u3 one3 two3 three3"):
        texts = [first, "a1 one1 two1 three1", "u2 one2 two2 three2"]
        desk.engine.sync(session, [Incoming(_speaks(text), entry_id=text) for text in texts])
        assert context(desk.engine, session) == texts


@given(data=st.data(), with_ids=st.booleans())
def test_edits_take_the_place_of_what_was_said(desk: Desk, data: st.DataObject, with_ids: bool) -> None:
    """Rule: a window with something in common is the context, whatever was edited in it; no text is lost or doubled."""

    def new(who: str) -> str:
        number = next(numbers)
        return f"{who}{number} one{number} two{number} three{number}"

    session, numbers = desk.session(), count()
    path = [new("ua"[n % 2]) for n in range(data.draw(st.integers(2, 8)))]
    paths: list[list[str]] = []
    shown = path
    for how in ["show", *data.draw(st.lists(st.sampled_from(("grow", "head", "edit", "two", "return")), max_size=6))]:
        path = list(shown)
        at = data.draw(st.integers(0, len(path) - 2))
        match how:
            case "grow":
                path += [new("ua"[len(path) % 2])]
            case "head":
                path[0] = new("u")
            case "edit":
                path[at] = new(path[at][0])
            case "two" if at + 2 < len(path):
                path[at : at + 2] = [new(text[0]) for text in path[at : at + 2]]
            case "return" if any(set(old) & set(path) and old != path[: len(old)] for old in paths):
                path = data.draw(st.sampled_from([old for old in paths if set(old) & set(path)]))
        shown = shown if shown[: len(path)] == path and paths else path
        paths.append(path)
        messages = [_speaks(text) for text in path]
        window = [Incoming(message, entry_id=message["content"]) for message in messages] if with_ids else messages
        desk.engine.sync(session, window)
        assert context(desk.engine, session) == shown
        rows, earlier = contents(desk.engine, session), _earlier(desk.engine, session)
        assert len(rows) == len(set(rows))
        assert {*rows, *earlier} == {text for path in paths for text in path}


def _earlier(engine: lossless.Engine, session: Session) -> list[str]:
    """The words that the rows of a session had before."""
    conversation = engine.archive.conversations.find(session)
    assert conversation is not None
    rows = engine.archive.messages.in_order(conversation.id)
    return [version.message.content for row in rows for version in engine.archive.versions.of(row.id)]


@given(data=st.data(), log=UNIQUE, notices=st.integers(1, 2), prompt=st.booleans())
def test_a_changing_notice_stands_in_the_context_once(
    desk: Desk, data: st.DataObject, log: list[str], notices: int, prompt: bool
) -> None:
    """Rule: whatever a window begins with, the context holds its newest notices, then the log; no message is lost.

    The window grows, then it slides by any step as long as something stays in common.
    """
    session, last = desk.session(), 0
    start = 0
    for turn, end in enumerate(data.draw(pieces(len(log)))):
        slides = turn > 1 and data.draw(st.booleans())
        start = data.draw(st.integers(start, max(start, last - 1))) if slides else start
        last = end
        if start == end:
            continue
        heads = [f"clock {n}: it is {turn} past noon" for n in range(notices)]
        window = [{"role": "user", "content": text} for text in heads] + said(log[start:end])
        desk.engine.sync(session, [{"role": "system", "content": "be kind"}, *window] if prompt else window)
        shown = context(desk.engine, session)
        assert Counter(text for text in shown if text.startswith("clock")) == Counter(heads)
        stored = [text for text in contents(desk.engine, session) if text.startswith("message")]
        assert stored == log[:end]

"""Every wording of a message is kept, exactly and once, whatever order they come in."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless import formats
from lossless.errors import NotFound
from lossless.model.identity import fingerprint, identity_hash, words_digest
from lossless.model.messages import Message
from lossless.store.messages import NewMessage
from lossless.testing.strategies import MESSAGES, hostile_text
from tests.faults import SESSION, Fault, dump, failing_at, open_engine, problems, statements_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hypothesis.strategies import DrawFn

    from lossless.store.archive import Archive
    from lossless.store.versions import Kind

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


def keep(archive: Archive, message_id: int, body: Body, kind: Kind = "lesser") -> bool:
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
        assert version.message == stored or version.message.content != stored.content[: len(version.message.content)]
        assert repr(version.message.original) == repr(stored.original)
    assert repr(shared.archive.messages.get(message_id).message.original) == repr(after)

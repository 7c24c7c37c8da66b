"""The message that asks: a question finds itself best of all, and is no evidence for its own answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.model.conversations import Session
    from lossless.recall.found import Findings
    from lossless.recall.scope import Grep, GrepRequest, Scope
    from lossless.store.archive import Archive


def asking_messages(archive: Archive, session: Session | None) -> frozenset[int]:
    """The messages of a session that ask now: the newest user message, and the call that its turn waits for.

    None when its newest message is an answer: then what asks is not stored yet.
    """
    conversation = None if session is None else archive.conversations.find(session)
    newest = None if conversation is None else archive.messages.newest_said_id(conversation.id)
    if conversation is None or newest is None:
        return frozenset()
    last = archive.messages.get(newest).message
    if last.role == "assistant" and not last.tool_calls:
        return frozenset()
    user = archive.messages.newest_users([conversation.id])
    return frozenset(user.values()) | (frozenset({newest}) if last.role == "assistant" else frozenset())


def is_asked_by(archive: Archive, questions: Iterable[str], found: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Of found messages with their conversations, those that ask: a newest user message with the same words.

    The same question of an earlier turn is evidence like any other.
    """
    known = dict(found)
    newest = archive.messages.newest_users(set(known.values())).values()
    asked = {_plain(question) for question in questions}
    stored = archive.messages.many([id_ for id_ in newest if id_ in known], exact=False)
    return frozenset(one.id for one in stored if _plain(one.message.content) in asked)


def without_asking(grep: Grep, asking: frozenset[int], questions: tuple[str, ...]) -> Grep:
    """A search that leaves out the messages that ask."""

    def search(
        archive: Archive, scope: Scope, request: GrepRequest, now: datetime, /, *, cursor: str | None = None
    ) -> Findings:
        found = grep(archive, scope, request, now, cursor=cursor)
        messages = [(hit.id, hit.conversation_id) for hit in found.hits if isinstance(hit.id, int)]
        gone = asking | is_asked_by(archive, questions, messages)
        return replace(found, hits=tuple(hit for hit in found.hits if hit.id not in gone)) if gone else found

    return search


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()

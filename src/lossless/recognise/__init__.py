"""What hosts write for their own use, recognised by small plug-ins: one module for each host, listed here.

A plug-in says why a message is not kept, which message only repeats another one, which turns had nothing to say,
and who spoke. Each judges only what is plainly its own host's: the same words of another host are ordinary messages.
The rest of the package knows nothing of any host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lossless.recognise import openclaw

if TYPE_CHECKING:
    from lossless.model.messages import Message


class Recogniser(Protocol):
    """One host; a module with these names."""

    @property
    def QUIET_ANSWERS(self) -> tuple[str, ...]:  # noqa: N802
        """The answers that say that there is nothing to do, word for word."""
        ...

    def why_skipped(self, message: Message) -> str | None:
        """Why a message is no part of a conversation, or None."""
        ...

    def may_be_note(self, message: Message) -> bool:
        """Whether a message may only note down what another one says."""
        ...

    def is_note_of(self, message: Message, before: Message) -> bool:
        """Whether such a message notes down the one before it."""
        ...

    def is_quiet_question(self, message: Message, session_key: str | None) -> bool:
        """Whether a message asks, in a person's place, if there is anything to do."""
        ...

    def is_quiet_answer(self, message: Message, session_key: str | None) -> bool:
        """Whether an answer says that there is nothing to do."""
        ...

    def sender_of(self, message: Message) -> str | None:
        """Who spoke, as JSON, when the host reports it."""
        ...


RECOGNISERS: tuple[Recogniser, ...] = (openclaw,)
QUIET_ANSWERS = tuple(answer for host in RECOGNISERS for answer in host.QUIET_ANSWERS)


def why_skipped(message: Message) -> str | None:
    """Why a message is not stored, or None; what no host wants kept comes first."""
    is_empty = message.role == "assistant" and not message.content.strip() and not message.parts
    if is_empty and message.stop_reason in ("error", "aborted"):
        return f"an empty answer that ended with {message.stop_reason!r}"
    return next((why for host in RECOGNISERS if (why := host.why_skipped(message))), None)


def may_be_note(message: Message) -> bool:
    """Whether some host may have noted a message down a second time."""
    return any(host.may_be_note(message) for host in RECOGNISERS)


def is_note_of(message: Message, before: Message | None) -> bool:
    """Whether a message only notes down what the one before it says."""
    return before is not None and any(host.is_note_of(message, before) for host in RECOGNISERS)


def is_quiet_question(message: Message, session_key: str | None) -> bool:
    """Whether the host of a session asks if there is anything to do."""
    return any(host.is_quiet_question(message, session_key) for host in RECOGNISERS)


def is_quiet_answer(message: Message, session_key: str | None) -> bool:
    """Whether the answer to that is that there is nothing."""
    return any(host.is_quiet_answer(message, session_key) for host in RECOGNISERS)


def sender_of(message: Message) -> str | None:
    """Who spoke, as JSON, when a host reports it."""
    return next((who for host in RECOGNISERS if (who := host.sender_of(message))), None)

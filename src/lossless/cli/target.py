"""Which conversation a command of the loop means, and for which budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lossless.cli import failures
from lossless.cli.commands import number, text
from lossless.cli.options import Selection, wrong
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.cli.invocation import Invocation
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

F = TypeVar("F", bound="Callable[..., Any]")

#: What is said to somebody who has not named a conversation.
NAME_ONE = "Name a conversation (--session-key, --session-id or --conversation-id); see `lcm conversations list`."


@dataclass(frozen=True, slots=True)
class Target:
    """One conversation, by its number or by its session."""

    conversation_id: int | None = None
    session_key: str | None = None
    session_id: str | None = None

    def need(self, archive: Archive) -> Conversation:
        """The conversation that is meant: of a session the active one, else the newest."""
        if self.session_id is None or self.session_key is not None:
            return archive.conversations.get(Selection(self.conversation_id, self.session_key).need(archive))
        found = archive.conversations.family(Session(id=self.session_id))
        if found:
            return found[0]
        raise failures.fail(
            "not_found",
            f"No conversation has session id {self.session_id!r}.",
            failures.NOT_FOUND,
            hint="`lcm conversations list` shows what is there.",
            kind="conversation",
            id=self.session_id,
        )

    def need_active(self, archive: Archive) -> Conversation:
        """The conversation that is meant; one that is closed does not change any more."""
        found = self.need(archive)
        if found.active:
            return found
        raise failures.fail(
            "closed",
            f"Conversation {found.id} is closed ({found.archive_cause or 'archived'}) and stays as it is.",
            failures.BAD_ARGUMENTS,
            hint="Name the conversation that its session goes on in.",
            conversationId=found.id,
        )


def targeted(*, required: bool = True) -> Callable[[F], F]:
    """Options that name one conversation; the command gets `target`, None when it need not name one and does not."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_target(
            *args: Any, conversation_id: int | None, session_key: str | None, session_id: str | None, **more: Any
        ) -> Any:
            is_session = session_key is not None or session_id is not None
            if conversation_id is not None and is_session:
                raise wrong("Give --conversation-id or a session, not both.")
            is_named = conversation_id is not None or is_session
            if required and not is_named:
                raise wrong(NAME_ONE)
            target = Target(conversation_id, session_key, session_id) if is_named else None
            return function(*args, target=target, **more)

        by_number = click.option(
            "--conversation-id", type=number, metavar="ID", help="The conversation with this number."
        )
        by_run = click.option("--session-id", type=text, help="The conversation of the run with this id.")
        by_key = click.option(
            "--session-key", type=text, help="The conversation of this key: the active one, else the newest."
        )
        return by_number(by_key(by_run(with_target)))  # type: ignore[return-value]

    return decorate


def budget_option(function: F) -> F:
    """`--budget`; the command gets None when it is not given."""
    option = click.option(
        "--budget",
        metavar="N",
        type=click.IntRange(1, 1_000_000_000),
        help="The tokens that a prompt may take; else the setting defaultTokenBudget.",
    )
    return option(function)


def find(invocation: Invocation, target: Target) -> Conversation:
    """The conversation that may be changed, looked up without changing anything."""
    with invocation.archive() as archive:
        return target.need_active(archive)

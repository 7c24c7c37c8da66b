"""The tools of agents in a person's hands: which conversations they look at, where stored files lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lossless.cli import failures
from lossless.cli.options import wrong
from lossless.cli.target import targeted
from lossless.errors import NotFound
from lossless.files import place
from lossless.model.conversations import Session
from lossless.recall.arguments import read_arguments
from lossless.recall.scope import OUT_OF_SCOPE, Caller, is_subagent_key
from lossless.recall.tools import BY_NAME, Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.files.vault import Vault
    from lossless.recall.calls import ToolResult
    from lossless.recall.delegate import Model
    from lossless.store.archive import Archive

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Reach:
    """What a person lets a tool look at: a session with its earlier conversations, one conversation, or all."""

    target: Target | None = None

    def resolve(self, archive: Archive) -> tuple[Caller, dict[str, Any]]:
        """Who asks, and what it says about where to look; what is named must be there."""
        target = self.target
        if target is None:
            return Caller(), {"allConversations": True}
        found = target.need(archive)
        if target.conversation_id is not None or is_subagent_key(target.session_key):
            return Caller(), {"conversationId": found.id}
        return Caller(Session(key=target.session_key, id=target.session_id), in_turn=False), {}


def reaching(function: F) -> F:
    """Options that say where to look; the command gets `reach`."""

    @wraps(function)
    def with_reach(*args: Any, target: Target | None, everything: bool, **more: Any) -> Any:
        if target is not None and everything:
            raise wrong("Give --all or a conversation, not both.")
        return function(*args, reach=Reach(target), **more)

    option = click.option(
        "--all", "everything", is_flag=True, help="Look at all conversations, as without a selection."
    )
    return targeted(required=False)(option(with_reach))  # type: ignore[return-value]


def vault_of(invocation: Invocation) -> Vault:
    """Where the bytes of stored files lie."""
    found = place.vault_of(invocation.file_path, invocation.loaded.settings.large_files_dir)
    assert found is not None  # an archive that a command names is a file
    return found


def use(
    invocation: Invocation,
    archive: Archive,
    name: str,
    reach: Reach,
    args: dict[str, Any],
    models: tuple[Model, ...] = (),
) -> ToolResult:
    """Use a tool as agents do, with everything that is allowed to sub-agents; what is wrong is raised."""
    settings = replace(invocation.loaded.settings, expand_for_main_agents="allow")
    box = Toolbox(archive, settings, vault=vault_of(invocation), models=models)
    tool = BY_NAME[name]
    caller, where = reach.resolve(archive)
    given = {key: value for key, value in args.items() if value is not None}
    try:
        return tool.function(box, read_arguments(tool.parameters, given | where), caller)
    except NotFound as error:
        if error.kind != OUT_OF_SCOPE:
            raise
        is_all = reach.target is None
        raise failures.fail(
            "not_found",
            f"There is no {error.id} in {'this archive' if is_all else 'the conversations that were named'}.",
            failures.NOT_FOUND,
            hint="" if is_all else "It may be in another conversation: --all looks in all of them.",
            id=error.id,
        ) from None

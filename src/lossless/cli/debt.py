"""`lcm debt`: which sweeps were put off, and why they are not paid yet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.target import targeted
from lossless.compaction.debt import Debt, is_due
from lossless.compaction.lease import lease_name

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.store.archive import Archive


@click.command("debt", cls=Command)
@targeted(required=False)
@click.pass_obj
def debt(invocation: Invocation, target: Target | None) -> None:
    """List the debts: sweeps that were put off, the longest waiting first, with the reason why they still wait.

    `lcm worker` pays those that are due. Nobody pays a debt of a closed conversation.
    """
    now = datetime.now(UTC)
    with invocation.archive() as archive, archive.reading():
        owing = archive.debts.pending(archived=True)
        if target is not None:
            owing = [id_ for id_ in owing if id_ == target.need(archive).id]
        items = [_item(archive, id_, now) for id_ in owing]
    due = sum(item["state"] == "due" for item in items)
    invocation.emit("debt", {"items": items, "due": due})


def _item(archive: Archive, conversation_id: int, now: datetime) -> dict[str, Any]:
    conversation = archive.conversations.get(conversation_id)
    owed = Debt(conversation_id, **(archive.debts.get(conversation_id) or {}))
    return {
        "conversationId": conversation_id,
        "sessionKey": conversation.session_key,
        "sessionId": conversation.session_id,
        "active": conversation.active,
        "state": _state(archive, owed, now, active=conversation.active),
        "reason": owed.reason,
        "requestedAt": owed.requested_at,
        "nextAttemptAfter": owed.next_attempt_after,
        "retryAttempts": owed.retry_attempts,
        "lastStartedAt": owed.last_started_at,
        "lastFinishedAt": owed.last_finished_at,
        "lastFailureSummary": owed.last_failure_summary,
        "tokenBudget": owed.token_budget,
        "currentTokenCount": owed.current_token_count,
        "contextThreshold": owed.context_threshold,
    }


def _state(archive: Archive, owed: Debt, now: datetime, *, active: bool) -> str:
    """`running` while somebody works on it, `closed` when nobody ever will, else `due` or `waiting`."""
    if archive.guards.is_leased(lease_name(owed.conversation_id), now):
        return "running"
    if not active:
        return "closed"
    return "due" if is_due(owed, now) else "waiting"

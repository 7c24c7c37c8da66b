"""`/lossless doctor …`: what is wrong, and what a person lets be done about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless.doctor import clean, maintenance
from lossless.errors import BadInput
from lossless.surgery import merge

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.model.conversations import Session

#: Words by which a person says that the consequences are clear.
_SURE = frozenset(
    {"confirm", "confirm-offline", "confirm-large", "confirm-inactive", "offline", "--offline", "--confirm-large"}
)


def answer(bridge: Bridge, session: Session, words: list[str]) -> str:
    """The text for what was typed behind `doctor`."""
    is_sure = any(word in _SURE for word in words)
    rest = [word for word in words if word not in _SURE]
    match rest:
        case []:
            return _examined(bridge)
        case ["apply"]:
            return _repaired(bridge, session, is_sure=is_sure)
        case ["apply", number] if number.isdigit():
            return _repaired_other(bridge, int(number), is_sure=is_sure)
        case ["clean"]:
            return "\n".join(plan.text for plan in clean.plans(bridge.engine.archive))
        case ["clean", "apply", *which] if len(which) <= 1 or which[1:] == ["vacuum"]:
            filter_id = next((word for word in which if word != "vacuum"), clean.ALL)
            return _cleaned(bridge, filter_id, vacuum="vacuum" in which)
        case ["rollover-splits"]:
            return "\n".join(split.text for split in merge.splits(bridge.engine.archive)) or "No session is split."
        case ["apply", "rollover-splits"]:
            return _merged(bridge, is_sure=is_sure)
        case ["maintenance"]:
            return _debts(bridge)
        case ["apply", "maintenance", number] if number.isdigit():
            return _closed(bridge, int(number), is_sure=is_sure)
    raise BadInput(
        "doctor takes nothing, or: apply, clean, clean apply [FILTER] [vacuum], rollover-splits, maintenance"
    )


def _backup(bridge: Bridge, label: str) -> Path:
    return bridge.engine.admin.copy(label).path


def _examined(bridge: Bridge) -> str:
    found = bridge.engine.admin.examine()
    if not found.findings:
        return "The archive is healthy."
    head = "Nothing is damaged or lost." if found.healthy else "Something is damaged or lost:"
    return f"{head}\n{found.text}"


def _repaired(bridge: Bridge, session: Session, *, is_sure: bool) -> str:
    done, drafts = bridge.engine.surgery.repair(session, confirm=is_sure)
    refused = [draft for draft in drafts if draft.refusal is not None]
    if done is None and not refused:
        return "No summary of this conversation is broken."
    written = 0 if done is None else len(done.summary_ids)
    summaries = "summary" if written == 1 else "summaries"
    return f"{written} {summaries} written anew, {len(refused)} left as they are."


def _repaired_other(bridge: Bridge, number: int, *, is_sure: bool) -> str:
    return _repaired(bridge, bridge.engine.archive.conversations.get(number).session, is_sure=is_sure)


def _cleaned(bridge: Bridge, filter_id: str, *, vacuum: bool) -> str:
    archive = bridge.engine.archive
    done = clean.apply(archive, clean.plan(archive, filter_id), lambda label: _backup(bridge, label), vacuum=vacuum)
    backup = f" Backup: {done.backup}." if done.backup else ""
    room = " The room was given back." if done.vacuumed else f" {done.refusal}." if done.refusal else ""
    return f"{done.conversations} conversations with {done.messages} messages deleted.{backup}{room}"


def _merged(bridge: Bridge, *, is_sure: bool) -> str:
    archive = bridge.engine.archive
    plans = [merge.plan(archive, split.session_key) for split in merge.splits(archive) if not split.review]
    if not plans:
        return "No session is split, or a person has to look first (`/lossless doctor rollover-splits`)."
    if not is_sure:
        return "\n".join([*(plan.text for plan in plans), "Add `confirm` to merge them."])
    for plan in plans:
        merge.apply(archive, plan, datetime.now(UTC), lambda label: _backup(bridge, label))
    return f"{len(plans)} sessions merged."


def _debts(bridge: Bridge) -> str:
    found = maintenance.debts(bridge.engine.archive, datetime.now(UTC))
    rows = [
        f"conversation {debt.conversation_id}: {debt.reason}{' (stuck)' if maintenance.is_stuck(debt) else ''}"
        for debt in found
    ]
    return "\n".join(rows) or "Nothing is owed."


def _closed(bridge: Bridge, number: int, *, is_sure: bool) -> str:
    archive, now = bridge.engine.archive, datetime.now(UTC)
    work = maintenance.plan(archive, number, now)
    if not is_sure:
        return f"{work.text}. Add `confirm-inactive` to close it."
    copy = maintenance.apply(archive, work, now, lambda label: _backup(bridge, label))
    return f"Closed. Backup: {copy}."

"""Debts that nobody will ever pay: listed, and closed one by one on a person's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.compaction.debt import OPERATOR_IGNORED
from lossless.errors import BadInput, Stale
from lossless.store.symptoms import Symptoms
from lossless.surgery.outcome import backed_up

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from lossless.store.archive import Archive
    from lossless.store.symptoms import DebtRow
    from lossless.surgery.outcome import Backup


@dataclass(frozen=True, slots=True)
class CloseDebt:
    """A debt that would be closed as a person's decision; nothing is written yet."""

    debt: DebtRow

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        since = f" since {self.debt.requested_at:%Y-%m-%d %H:%M} UTC" if self.debt.requested_at else ""
        return f"conversation {self.debt.conversation_id}: the sweep owed{since} ({self.debt.reason}) is closed unpaid"


def debts(archive: Archive, now: datetime) -> list[DebtRow]:
    """Sweeps that are pending or said to run, those of closed conversations first."""
    return Symptoms(archive.database).debts(now)


def is_stuck(debt: DebtRow) -> bool:
    """Whether it will not be paid by itself: its conversation is closed, or its worker died."""
    return (debt.pending and not debt.active) or (debt.running and not debt.leased)


def plan(archive: Archive, conversation_id: int, now: datetime) -> CloseDebt:
    """Closing the debt of a closed conversation; BadInput for one that will be paid or is none."""
    archive.conversations.get(conversation_id)
    found = next((debt for debt in debts(archive, now) if debt.conversation_id == conversation_id), None)
    if found is None or not found.pending:
        raise BadInput(f"conversation {conversation_id} owes nothing")
    if found.active:
        raise BadInput(f"conversation {conversation_id} is active: `lcm worker` pays its debt")
    return CloseDebt(found)


def apply(archive: Archive, work: CloseDebt, now: datetime, backup: Backup) -> Path | None:
    """Close it as `operator-ignored`, if nobody changed it since; returns the backup."""
    copy = backed_up(backup, "maintenance")
    with archive.writing():
        debt = work.debt
        symptoms = Symptoms(archive.database)
        if not symptoms.close_debt(debt.conversation_id, debt.revision, OPERATOR_IGNORED, now):
            raise Stale(f"the debt of conversation {debt.conversation_id} changed since it was listed; look again")
    return copy

"""Cleaning up: conversations that nobody goes back to are deleted for good, after a backup, on a person's word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, BadInput
from lossless.store.retention import Retention
from lossless.store.symptoms import Symptoms
from lossless.surgery.outcome import backed_up, same

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.store.archive import Archive
    from lossless.store.retention import Held
    from lossless.surgery.outcome import Backup

#: The filters by name, with what each means.
FILTERS = {
    "archived_subagents": "closed conversations of sub-agents",
    "cron_sessions": "runs of cron jobs, closed or silent for a day",
    "null_subagent_context": "nameless conversations that begin as a sub-agent's, closed or silent for a day",
}
#: All of them together.
ALL = "all"
#: An open conversation that was silent for so long, and that nobody is at work on, will not go on.
SILENCE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Which conversations would be deleted; nothing is written yet."""

    filter_id: str
    conversations: tuple[Held, ...]
    #: The moment that a silence is counted up to.
    at: datetime

    @property
    def bytes(self) -> int:
        """What their words take."""
        return sum(held.text_bytes for held in self.conversations)

    @property
    def meaning(self) -> str:
        return FILTERS.get(self.filter_id, "what any filter means")

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        head = f"{self.filter_id}: {len(self.conversations)} conversations ({self.meaning})"
        rows = [f"- {held.id} {held.name}: {held.messages} messages" for held in self.conversations]
        return "\n".join([head, *rows])


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was deleted, where the copy of it lies, and why the room was not given back, if it was asked for."""

    conversations: int
    messages: int
    backup: Path | None
    vacuumed: bool = False
    refusal: str | None = None


def plan(archive: Archive, filter_id: str, now: datetime | None = None) -> CleanPlan:
    """What a filter, or all of them, means now; one whose rows others need stays."""
    if filter_id not in (*FILTERS, ALL):
        raise BadInput(f"no filter {filter_id!r}; there are {', '.join(FILTERS)} and {ALL}")
    at = now or datetime.now(UTC)
    with archive.reading():
        ids = deletable(archive, filter_id, at)
        held = Retention(archive.database).held() if ids else []
        return CleanPlan(filter_id, tuple(one for one in held if one.id in ids), at)


def deletable(archive: Archive, filter_id: str, now: datetime) -> set[int]:
    """The conversations that a filter, or any, means, without those whose rows another one that stays needs."""
    symptoms = Symptoms(archive.database)
    ids = {id_ for name in FILTERS if filter_id in (name, ALL) for id_ in symptoms.matching(name, now, SILENCE)}
    borrowed = Retention(archive.database).borrowed() if ids else []
    while needed := {owner for holder, owner in borrowed if owner in ids and holder not in ids}:
        ids -= needed
    return ids


def plans(archive: Archive, now: datetime | None = None) -> list[CleanPlan]:
    """What each filter means now."""
    return [plan(archive, filter_id, now) for filter_id in FILTERS]


def apply(archive: Archive, work: CleanPlan, backup: Backup, *, vacuum: bool = False) -> Cleaned:
    """Delete, all or nothing, and prove that no reference is left hanging; files stay for `lcm files gc`."""
    copy = backed_up(backup, "doctor-clean") if work.conversations else None
    if work.conversations:
        with archive.writing():
            same(work, plan(archive, work.filter_id, work.at))
            Retention(archive.database).delete([held.id for held in work.conversations], work.at)
            if hanging := Symptoms(archive.database).broken_references():
                raise ArchiveCorrupt(f"deleting would leave rows of {hanging[0][0]!r} without their {hanging[0][1]!r}")
    refusal = Retention(archive.database).give_back() if vacuum else None
    messages = sum(held.messages for held in work.conversations)
    return Cleaned(len(work.conversations), messages, copy, vacuum and refusal is None, refusal)

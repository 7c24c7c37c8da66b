"""Cleaning up: conversations that nobody goes back to are deleted for good, after a backup, on a person's word."""

from __future__ import annotations

from dataclasses import dataclass
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
    "cron_sessions": "finished runs of cron jobs",
    "null_subagent_context": "conversations without a session key that begin as a sub-agent's",
}


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Which conversations would be deleted; nothing is written yet."""

    filter_id: str
    conversations: tuple[Held, ...]

    @property
    def bytes(self) -> int:
        """What their words take."""
        return sum(held.text_bytes for held in self.conversations)

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        head = f"{self.filter_id}: {len(self.conversations)} conversations ({FILTERS[self.filter_id]})"
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


def plan(archive: Archive, filter_id: str) -> CleanPlan:
    """What a filter means; one whose rows others need stays."""
    if filter_id not in FILTERS:
        raise BadInput(f"no filter {filter_id!r}; there are {', '.join(FILTERS)}")
    with archive.reading():
        ids = set(Symptoms(archive.database).matching(filter_id))
        if not ids:
            return CleanPlan(filter_id, ())
        retention = Retention(archive.database)
        ids -= {owner for holder, owner in retention.borrowed() if holder not in ids}
        return CleanPlan(filter_id, tuple(held for held in retention.held() if held.id in ids))


def plans(archive: Archive) -> list[CleanPlan]:
    """What each filter means."""
    return [plan(archive, filter_id) for filter_id in FILTERS]


def apply(archive: Archive, work: CleanPlan, backup: Backup, *, vacuum: bool = False) -> Cleaned:
    """Delete, all or nothing, and prove that no reference is left hanging; files stay for `lcm files gc`."""
    copy = backed_up(backup, "doctor-clean") if work.conversations else None
    if work.conversations:
        with archive.writing():
            same(work, plan(archive, work.filter_id))
            Retention(archive.database).delete([held.id for held in work.conversations])
            if hanging := Symptoms(archive.database).broken_references():
                raise ArchiveCorrupt(f"deleting would leave rows of {hanging[0][0]!r} without their {hanging[0][1]!r}")
    refusal = Retention(archive.database).give_back() if vacuum else None
    messages = sum(held.messages for held in work.conversations)
    return Cleaned(len(work.conversations), messages, copy, vacuum and refusal is None, refusal)

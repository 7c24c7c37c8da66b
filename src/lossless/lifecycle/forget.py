"""Forgetting on purpose in an archive and in the backups beside it: the backups first, so that it can be repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.errors import BadInput, LosslessError, NotFound
from lossless.files.copies import folder_of
from lossless.files.vault import Vault
from lossless.lifecycle import backup as backups
from lossless.lifecycle.forgetting import Touched, Wanted, apply, finish, plan, whole_conversations, whole_messages
from lossless.model.masking import check_phrase
from lossless.store.archive import Archive
from lossless.store.copies import without_log
from lossless.store.forgetting import Forgetting
from lossless.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lossless.lifecycle.forgetting import Tools

_MEMORY = ":memory:"


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What was forgotten, or would be: in the archive, and in each backup by its path."""

    archive: Touched
    backups: tuple[tuple[Path, Touched], ...] = ()
    #: Places that keep words, each with its reason.
    left: tuple[str, ...] = ()
    #: Whether an earlier forgetting that was stopped was brought to its end.
    resumed: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether none of it was found anywhere."""
        return self.archive.is_nothing and all(touched.is_nothing for _, touched in self.backups)


def wanted(
    archive: Archive, phrases: Sequence[str], message_ids: Sequence[int], session_names: Sequence[str]
) -> Wanted:
    """What a person asks to forget; BadInput for phrases that are too short, NotFound for what is not there."""
    if not (phrases or message_ids or session_names):
        raise BadInput("say what to forget: phrases, messages or sessions")
    there = {stored.id for stored in archive.messages.many(message_ids)}
    for id_ in message_ids:
        if id_ not in there:
            raise NotFound("message", id_)
    held = [held for held in Retention(archive.database).held() if held.name in session_names]
    for name in set(session_names) - {one.name for one in held}:
        raise NotFound("session", name)
    ids = tuple(one.id for one in held)
    whole = whole_messages(archive, message_ids) | whole_conversations(archive, ids)
    return Wanted(tuple(map(check_phrase, dict.fromkeys(phrases))), whole, ids)


def forget(tools: Tools, asked: Wanted, *, dry_run: bool = False) -> ForgetReport:
    """Forget what is asked for in the backups beside an archive, then in the archive, or only say where it is."""
    archive, left, found = tools.archive, [], []
    if not dry_run:
        with archive.writing():  # what cannot be written is told before a backup is touched
            pass
    for one in [] if archive.path == _MEMORY else backups.listed(archive.path):
        try:
            touched, more = _in_backup(tools, asked, one.path, dry_run=dry_run)
        except (LosslessError, OSError) as error:
            left.append(f"backup {one.path}: {error}")
            continue
        left += [f"backup {one.path}: {reason}" for reason in more]
        if not touched.is_nothing:
            found.append((one.path, touched))
    is_resumed = Forgetting(archive).pending is not None
    touched = plan(tools, asked) if dry_run else apply(tools, asked)
    left += touched.left
    if not dry_run:
        left += finish(tools)
    return ForgetReport(touched, tuple(found), tuple(left), is_resumed)


def _in_backup(tools: Tools, asked: Wanted, path: Path, *, dry_run: bool) -> tuple[Touched, Sequence[str]]:
    """The same in a backup, whose payloads lie in a folder of its own; one that holds none of it stays as it is."""
    quiet = replace(tools, vault=Vault(folder_of(path)), progress=None)
    with Archive.open(path, read_only=True) as archive:
        found = plan(replace(quiet, archive=archive), asked)
        is_half_done = Forgetting(archive).pending is not None
    if dry_run or (found.is_nothing and not found.left and not is_half_done):
        return found, found.left
    with Archive.open(path) as archive:
        work = replace(quiet, archive=archive)
        touched = apply(work, asked)
        left = (*touched.left, *finish(work))
        without_log(archive.database)
    return touched, left

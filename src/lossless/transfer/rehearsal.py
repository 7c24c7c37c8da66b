"""An import that is only tried: it is done as it would be, on a copy of the archive that is thrown away."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lossless.engine import Engine
from lossless.errors import NotFound
from lossless.settings import Settings
from lossless.store.archive import Archive
from lossless.store.copies import copy_to
from lossless.transfer.transcripts import Outcome, bring_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Rehearsal:
    """Tries one file after the other, each upon what those before it would have stored."""

    def __init__(self, engine: Engine, archive: Archive | None) -> None:
        self._engine, self._archive = engine, archive

    def look_at(
        self, kind: str, path: Path, *, again: bool = False, progress: Callable[[int], None] | None = None
    ) -> Iterator[Outcome]:
        """What importing a file would do."""
        for outcome in bring_in(self._engine, kind, path, fold=False, again=again, progress=progress):
            status = "would-import" if outcome.status == "imported" else outcome.status
            yield replace(outcome, status=status, conversation_id=self._there(outcome.conversation_id))

    def _there(self, conversation_id: int | None) -> int | None:
        """The conversation, if the archive has it already."""
        if self._archive is None or conversation_id is None:
            return None
        try:
            return self._archive.conversations.get(conversation_id).id
        except NotFound:
            return None


@contextmanager
def rehearsing(archive: Archive | None, settings: Settings | None = None) -> Iterator[Rehearsal]:
    """A copy of an archive, or an empty one, in which imports can be tried; the archive itself is only read.

    The copy is a file among the temporary ones, for as long as this lasts.
    """
    quiet = replace(settings or Settings(), payloads_in_files=False, independent_log_file_enabled=False)
    with TemporaryDirectory(prefix="lossless-") as folder:
        place = Path(folder, "rehearsal.db")
        if archive is not None:
            copy_to(archive.database, str(place))
        with Archive.open(place) as copy, copy.writing():
            yield Rehearsal(Engine(copy, quiet, background=False), archive)

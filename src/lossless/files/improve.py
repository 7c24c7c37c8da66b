"""Better words about stored prose, from a model: asked for later, never while somebody waits for a turn.

A file gets a summary that is made here when it is stored. A model's description takes its place once there is one;
until then, and whenever the model fails, what was made here stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lossless.errors import ArchiveError, GuardOpen, LosslessError, ModelError, NotFound, Stale
from lossless.files.explore import summarise
from lossless.files.explore.text import HEADING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from lossless.files.explore import Ask
    from lossless.files.vault import Vault
    from lossless.model.files import StoredFile

_TOOL_INPUT = "Tool input: "
#: After one of these the next file would fare no better; `Stale` says that somebody else is at it.
_REFUSALS = (ModelError, GuardOpen, Stale)


class PlainRows(Protocol):
    """The rows of large files: `archive.files`."""

    def plain(self, limit: int, conversation_id: int | None = None, but: Iterable[str] = ()) -> list[StoredFile]:
        """Files of prose that no model has described yet."""
        ...

    def count_plain(self, conversation_id: int | None = None) -> int:
        """How many there are."""
        ...

    def set_summary(self, file: StoredFile, summary: str) -> bool:
        """Put a better summary in the place of the known one."""
        ...


class Kept(Protocol):
    """An archive, as far as it is needed here."""

    @property
    def files(self) -> PlainRows: ...

    def writing(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Described:
    """What came of asking a model about files."""

    #: The files that are better described now.
    file_ids: tuple[str, ...] = ()
    #: How many are left as they were.
    left: int = 0
    #: Why the model was not asked any further.
    failure: LosslessError | None = None


@dataclass(slots=True)
class Improver:
    """Has a model describe files, the oldest first. A file that it has nothing to say about is asked for once."""

    archive: Kept
    vault: Vault
    #: Raises an error of the package when there is no answer; breaker and spend limit stand in front of it.
    ask: Ask
    passed_over: set[str] = field(default_factory=set)

    def improve(
        self,
        limit: int,
        conversation_id: int | None = None,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> Described:
        """Describe up to so many files; a model that fails, or must not be asked, ends it."""
        done: list[str] = []
        failure: LosslessError | None = None
        for file in self.archive.files.plain(limit, conversation_id, self.passed_over):
            try:
                is_better = self._improve(file)
            except _REFUSALS as error:
                failure = error
                break
            if is_better:
                done.append(file.id)
            else:
                self.passed_over.add(file.id)
            if progress:
                progress(file)
        return Described(tuple(done), self.archive.files.count_plain(conversation_id), failure)

    def _improve(self, file: StoredFile) -> bool:
        """Whether a model's words stand in the row now."""
        refusals: list[LosslessError] = []

        def ask(prompt: str) -> str:
            try:
                return self.ask(prompt)
            except _REFUSALS as error:
                refusals.append(error)
                raise

        try:
            data = self.vault.read(file).data
        except (NotFound, ArchiveError):
            return False
        told = summarise(data, file.name, file.mime, ask=ask)
        if refusals:
            raise refusals[0]
        if told.startswith(HEADING):
            return False
        known = file.exploration_summary or ""
        asked = f"{known.partition(chr(10))[0]}\n" if known.startswith(_TOOL_INPUT) else ""
        with self.archive.writing():
            return self.archive.files.set_summary(file, asked + told)

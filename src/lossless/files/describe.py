"""Descriptions of stored prose files by a model, asked for later and never during a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lossless.errors import ArchiveError, GuardOpen, LosslessError, ModelError, NotFound, Stale
from lossless.files.explore import summarise
from lossless.files.explore.text import TEXT_HEADING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from lossless.files.explore import Ask
    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile

_TOOL_INPUT = "Tool input: "
#: After one of these the next file would fare no better; `Stale` says that somebody else is at it.
_REFUSALS = (ModelError, GuardOpen, Stale)


class UndescribedFiles(Protocol):
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


class FileArchive(Protocol):
    """An archive, as far as it is needed here."""

    @property
    def files(self) -> UndescribedFiles: ...

    def writing(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class DescribeReport:
    """What came of asking a model about files."""

    #: The files that are better described now.
    file_ids: tuple[str, ...] = ()
    #: How many are left as they were.
    left: int = 0
    #: Why the model was not asked any further.
    failure: LosslessError | None = None


@dataclass(slots=True)
class PayloadDescriber:
    """Has a model describe files, the oldest first. A file that it has nothing to say about is asked for once."""

    archive: FileArchive
    vault: Vault
    #: Raises an error of the package when there is no answer; breaker and spend limit stand in front of it.
    ask: Ask
    passed_over: set[str] = field(default_factory=set)

    def improve(
        self,
        limit: int,
        conversation_id: int | None = None,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> DescribeReport:
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
        return DescribeReport(tuple(done), self.archive.files.count_plain(conversation_id), failure)

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
        if told.startswith(TEXT_HEADING):
            return False
        known = file.exploration_summary or ""
        asked = f"{known.partition(chr(10))[0]}\n" if known.startswith(_TOOL_INPUT) else ""
        with self.archive.writing():
            return self.archive.files.set_summary(file, asked + told)

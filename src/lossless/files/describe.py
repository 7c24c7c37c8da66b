"""Descriptions of stored prose files by a model, asked for later and never during a turn."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.errors import ArchiveError, GuardOpen, LosslessError, ModelError, NotFound, Stale
from lossless.files.explore import summarise
from lossless.files.explore.text import TEXT_HEADING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lossless.files.explore import Ask
    from lossless.files.vault import FileRows, Vault
    from lossless.model.messages import StoredFile

_TOOL_INPUT = "Tool input: "
#: After one of these, calls for further files would fail, too; `Stale` means that another process is at work.
_REFUSALS = (ModelError, GuardOpen, Stale)


@dataclass(frozen=True, slots=True)
class DescribeReport:
    """The result of describing files."""

    #: The files with improved descriptions.
    file_ids: tuple[str, ...] = ()
    #: How many are unchanged.
    left: int = 0
    #: Why the run stopped early.
    failure: LosslessError | None = None


@dataclass(slots=True)
class PayloadDescriber:
    """Has a model describe files, oldest first. A file without a usable answer is tried once only."""

    files: FileRows
    #: Begins a transaction of the archive: `archive.writing`.
    writing: Callable[[], AbstractContextManager[None]]
    vault: Vault
    #: Raises an error of the package when there is no answer; guarded by breaker and spend limit.
    ask: Ask
    passed_over: set[str] = field(default_factory=set)

    def improve(
        self, limit: int, conversation_id: int | None = None, progress: Callable[[StoredFile], None] | None = None
    ) -> DescribeReport:
        """Describe up to so many files; stops when the model fails or must not be called."""
        done: list[str] = []
        refusals: list[LosslessError] = []

        def ask(prompt: str) -> str:
            try:
                return self.ask(prompt)
            except _REFUSALS as error:
                refusals.append(error)
                raise

        for file in self.files.plain(limit, conversation_id, self.passed_over):
            text = TEXT_HEADING  # the description without a model
            with suppress(NotFound, ArchiveError):
                text = summarise(self.vault.read(file).data, file.name, file.mime, ask=ask)
            if refusals:
                break
            is_better = False
            if not text.startswith(TEXT_HEADING):
                known = file.exploration_summary or ""
                asked = f"{known.partition(chr(10))[0]}\n" if known.startswith(_TOOL_INPUT) else ""
                with self.writing():
                    is_better = self.files.set_summary(file, asked + text)
            if is_better:
                done.append(file.id)
            else:
                self.passed_over.add(file.id)
            if progress:
                progress(file)
        return DescribeReport(tuple(done), self.files.count_plain(conversation_id), next(iter(refusals), None))

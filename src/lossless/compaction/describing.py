"""Who describes stored files, one process at a time: breaker, spend limit and lease stand in front of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.compaction.lease import lease
from lossless.files.improve import Described, Improver

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.compaction.summariser import Summariser
    from lossless.files.vault import Vault
    from lossless.model.files import StoredFile
    from lossless.store.archive import Archive

#: How many files one round describes: others wait behind it.
FILES_A_ROUND = 20
_LEASE_NAME = "describe files"


@dataclass(frozen=True, slots=True)
class Describing:
    """Has the configured model describe stored prose; without one nothing is asked and nothing changes."""

    archive: Archive
    vault: Vault | None
    summariser: Summariser
    clock: Callable[[], datetime]
    #: Files that the model had nothing to say about, or that cannot be read.
    passed_over: set[str] = field(default_factory=set)

    @property
    def is_wanted(self) -> bool:
        return self.vault is not None and not self.archive.read_only and bool(self.summariser.describers)

    def has_work(self, conversation_id: int) -> bool:
        """Whether a file of a conversation waits for a better description; asks no model."""
        return self.is_wanted and bool(self.archive.files.plain(1, conversation_id, self.passed_over))

    def run(
        self,
        conversation_id: int | None = None,
        limit: int = FILES_A_ROUND,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> Described:
        """Describe up to so many files of a conversation, or of all."""
        has_work = self.is_wanted and self.archive.files.plain(1, conversation_id, self.passed_over)
        if self.vault is None or not has_work:
            return Described(left=self.archive.files.count_plain(conversation_id))
        with lease(self.archive, _LEASE_NAME, self.clock, self.summariser.settings.summary_timeout_ms) as prolong:
            gate = replace(self.summariser.gate(self.archive, 0, self.clock), is_wanted=prolong)
            improver = Improver(self.archive, self.vault, self.summariser.describe_with(gate), self.passed_over)
            return improver.improve(limit, conversation_id, progress)

"""The archive that the screens read, and the engine that is opened for writing when a change is confirmed.

Raises `ArchiveDenied` for changes to an archive that is read only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveDenied

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.engine import Engine
    from lossless.llm.completion import ModelEstimate, Prompt
    from lossless.maintenance.browse import Browse
    from lossless.settings import Settings

#: A reader waits no longer than this for a writer that keeps everybody out.
_PATIENCE_MS = 3_000


class ArchiveAccess:
    """An archive, the settings that hold, the folders with a host's session files, and the one that Codex writes to."""

    def __init__(
        self,
        path: str | Path,
        settings: Settings,
        *,
        folders: tuple[Path, ...] = (),
        codex: Path | None = None,
        read_only: bool = False,
        complete: Callable[[Prompt], object] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings, self.folders, self.read_only, self.clock = settings, folders, read_only, clock
        self.codex, self._complete = codex, complete
        self._former: list[Engine] = []
        self.engine = self._open(path)

    def _open(self, path: str | Path) -> Engine:
        from lossless.engine import open_engine

        how: dict[str, Any] = {"background": False, "read_only": True, "busy_timeout_ms": _PATIENCE_MS}
        return open_engine(path, self.settings, self._complete, clock=self.clock, **how)

    @property
    def path(self) -> str:
        return self.browse.path

    @property
    def browse(self) -> Browse:
        """What can be looked at."""
        return self.engine.browse

    def model_estimate(self) -> ModelEstimate | None:
        """What a model would have cost for the summaries here; None when one is configured, or there are none."""
        from lossless.llm.completion import estimate_model

        return None if self.engine.loop.summariser.has_model else estimate_model(self.browse.depths())

    @property
    def work_settings(self) -> Settings:
        """The settings for rewriting: a model named for the terminal goes first."""
        ours = self.settings
        return replace(
            ours,
            summary_model=ours.tui_summary_model or ours.summary_model,
            summary_provider=ours.tui_summary_provider or ours.summary_provider,
            summary_base_url=ours.tui_summary_base_url or ours.summary_base_url,
        )

    @contextmanager
    def working(self) -> Iterator[Engine]:
        """An engine that writes, for one piece of work; ArchiveDenied when the archive is only to be looked at."""
        from lossless.engine import open_engine

        if self.read_only:
            raise ArchiveDenied(f"archive {self.path!r}: it was opened to be looked at; start without --read-only")
        with open_engine(self.path, self.work_settings, self._complete, clock=self.clock, background=False) as engine:
            yield engine

    @property
    def mark(self) -> list[tuple[int, int]]:
        """Changes when the archive is written; a look at the file system, no read of the file."""
        stamps = []
        for name in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                found = os.stat(name)
                stamps.append((found.st_mtime_ns, found.st_size))
        return stamps

    def refresh(self) -> None:
        """After work: what stood in for tables that a file of an older shape lacked is no longer needed."""
        if self.browse.is_of_older_shape:
            self._former.append(self.engine)
            self.engine = self._open(self.path)

    def close(self) -> None:
        """Close the file."""
        for engine in (*self._former, self.engine):
            engine.close()

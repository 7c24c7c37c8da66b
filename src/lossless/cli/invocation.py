"""One run of `lcm`: its global options, the settings that hold, the archive it means, and where its answer goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.cli import failures
from lossless.paths import expanded

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.settings import Loaded
    from lossless.store.archive import Archive


class Invocation:
    """What the global options say, and what follows from them."""

    def __init__(self) -> None:
        self.db: str | None = None
        self.config: str | None = None
        self.openclaw_dir: str | None = None
        self.format: str | None = None
        self.pretty = False
        self._loaded: Loaded | None = None

    @property
    def as_json(self) -> bool:
        """Whether a program reads the answer."""
        return self.format == "json" or (self.format is None and not sys.stdout.isatty())

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches."""
        return not self.as_json and sys.stderr.isatty()

    @property
    def loaded(self) -> Loaded:
        """The settings that hold here."""
        if self._loaded is None:
            from lossless.settings import load

            if self.config is not None and not expanded(self.config).exists():
                raise failures.fail(
                    "not_found", f"There is no config file {self.config!r}.", failures.NOT_FOUND, configPath=self.config
                )
            self._loaded = load(self.config, database=self.db, openclaw_dir=self.openclaw_dir)
        return self._loaded

    @property
    def database_path(self) -> str:
        """The archive that is meant."""
        path = self.loaded.settings.database_path or "lcm.db"
        return path if "://" in path else str(expanded(path).absolute())

    @property
    def file_path(self) -> str:
        """The archive that is meant, which must be a file."""
        path = self.database_path
        if "://" in path:
            place = _without_passwords(path)
            raise failures.fail(
                "archive", f"An archive at {place} cannot be opened: only files can.", failures.DATABASE
            )
        return path

    @property
    def meta(self) -> dict[str, Any]:
        """What every answer says about where it comes from."""
        path = self.loaded.config_path
        meta: dict[str, Any] = {
            "databasePath": _without_passwords(self.database_path),
            "configPath": None if path is None else str(expanded(path).absolute()),
        }
        if self.loaded.warnings:
            meta["warnings"] = [str(notice) for notice in self.loaded.warnings]
        return meta

    def archive(self) -> Archive:
        """The archive, opened for reading only: its bytes stay as they are."""
        from lossless.store.archive import Archive

        path = self.file_path
        if not Path(path).exists():
            raise failures.fail(
                "not_found",
                f"There is no archive at {path}.",
                failures.NOT_FOUND,
                hint="Name one with --db or LCM_DATABASE_PATH, or make one with `lcm append`.",
                databasePath=path,
            )
        return Archive.open(path, read_only=True)

    def engine(self) -> Engine:
        """The engine on the archive, which is made when it is not there."""
        from lossless.engine import open_engine

        return open_engine(self.file_path, self.loaded.settings, background=False)

    def emit(
        self,
        command: str,
        data: dict[str, Any],
        pagination: dict[str, Any] | None = None,
        *,
        ok: bool = True,
    ) -> None:
        """Print an answer: an envelope for programs, a table of the same data for people."""
        from lossless.cli import output

        if self.as_json:
            page = {} if pagination is None else {"pagination": pagination}
            envelope = {"ok": ok, "command": command, "data": data, **page, "meta": self.meta}
            output.write_json(envelope, pretty=self.pretty)
        else:
            output.write_view(command, data, pagination, self.loaded)


def _without_passwords(text: str) -> str:
    from lossless.settings.setting import without_passwords

    return without_passwords(text)

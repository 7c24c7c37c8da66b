"""Where the state folder, the config file and the archive are looked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lossless.settings.kinds import is_time_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_NAME = "lossless.toml"
HOST_CONFIG_NAME = "openclaw.json"
#: A link to the file of the machine's time zone, on Linux and macOS.
_LOCALTIME = Path("/etc/localtime")
_UTC = frozenset(("UTC", "UCT", "Universal", "Zulu"))


class Places(NamedTuple):
    """The outside world as far as paths depend on it; `openclaw_dir` is a person's explicit choice."""

    env: Mapping[str, str]
    cwd: Path | None
    home: Path
    openclaw_dir: Path | None = None
    localtime: Path = _LOCALTIME

    @staticmethod
    def of(
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        openclaw_dir: str | os.PathLike[str] | None = None,
    ) -> Places:
        """The given places, the process's own where none is given."""
        env = os.environ if env is None else env
        found = Path(home) if home is not None else Path(env.get("HOME") or os.path.expanduser("~"))
        chosen = None if openclaw_dir is None else Path(_expanded(os.fspath(openclaw_dir), found))
        return Places(env, Path(cwd) if cwd is not None else _working_folder(), found, chosen)

    def expand(self, text: str) -> str:
        """The path with a leading `~` replaced by the home folder."""
        return _expanded(text, self.home)

    def variable(self, name: str) -> str | None:
        """The path in a variable, None when it is not set or blank."""
        text = self.env.get(name, "").strip()
        return _expanded(text, self.home) if text else None

    @property
    def time_zone(self) -> str | None:
        """The name of the machine's time zone; None where it is UTC or cannot be told."""
        name = os.path.realpath(self.localtime).rpartition("/zoneinfo/")[2]
        return name if name.removeprefix("Etc/") not in _UTC and is_time_zone(name) else None

    @property
    def state_dir(self) -> Path:
        """Shared with OpenClaw, so that both see one archive."""
        if self.openclaw_dir is not None:
            return self.openclaw_dir
        chosen = self.variable("LCM_OPENCLAW_DIR") or self.variable("OPENCLAW_STATE_DIR")
        if chosen:
            return Path(chosen)
        return Path(self.variable("OPENCLAW_HOME") or self.home) / ".openclaw"

    @property
    def host_config(self) -> Path:
        """The host's config file, there or not."""
        return Path(self.variable("OPENCLAW_CONFIG_PATH") or self.state_dir / HOST_CONFIG_NAME)

    @property
    def user_config(self) -> Path:
        """The person's own config file, there or not. A relative XDG_CONFIG_HOME counts as not set."""
        xdg = self.variable("XDG_CONFIG_HOME")
        folder = Path(xdg) if xdg and os.path.isabs(xdg) else self.home / ".config"
        return folder / "lossless" / CONFIG_NAME

    def find_config(self) -> Path | None:
        """The config file to read: the working folder's, the person's, else the host's."""
        candidates = [self.user_config, self.home / ".config" / "lossless" / CONFIG_NAME, self.host_config]
        if self.cwd is not None:
            candidates.insert(0, self.cwd / CONFIG_NAME)
        return next((path for path in candidates if _is_file(path)), None)


def _working_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _expanded(text: str, home: Path) -> str:
    return os.path.join(home, text[2:]) if text == "~" or text.startswith("~/") else text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False

"""The secret of a local server: from the environment, or from a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.paths import private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "LCM_MCP_TOKEN"
_LEAST_CHARS = 16


def token_file(env: Mapping[str, str] = os.environ) -> Path:
    """Where the token lies when nobody says where."""
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or Path.home()) / ".local" / "state")
    return Path(state) / "lossless" / "mcp-token"


def token(file: Path | None = None, env: Mapping[str, str] = os.environ, variable: str = VARIABLE) -> tuple[str, str]:
    """The token, and where it came from; a file that is not there is made.

    Raises BadInput for a token that is too short, and for a file that others can read.
    """
    given = env.get(variable, "").strip()
    if given and file is None:
        return _long_enough(given, f"${variable}"), f"${variable}"
    place = file or token_file(env)
    try:
        private_folder(place.parent)
        _make(place)
        if os.name == "posix" and stat.S_IMODE(place.stat().st_mode) & 0o077:
            raise BadInput(f"others can read the token in {str(place)!r}: chmod 600 it, or delete it to get a new one")
        return _long_enough(place.read_text(encoding="utf-8").strip(), str(place)), str(place)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token file {str(place)!r} cannot be used: {error}") from error


def _make(place: Path) -> None:
    """Write a new token, unless there is a file already."""
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(32) + "\n")


def _long_enough(text: str, source: str) -> str:
    if len(text) < _LEAST_CHARS or not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"the token in {source} must have {_LEAST_CHARS} printable characters or more, without blanks")
    return text

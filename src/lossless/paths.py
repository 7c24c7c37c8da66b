"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with a leading `~` or `~name` replaced; as it is where nobody has that name."""
    return Path(os.path.expanduser(path))

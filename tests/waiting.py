"""How tests wait for what another thread or process does: until it is so, not for a while."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Long enough for a slow machine that has much else to do; nobody waits that long when all is well.
PATIENCE = 60.0


def wait_for(is_so: Callable[[], object], seconds: float = PATIENCE, every: float = 0.01) -> None:
    """Return once it is so; fail when that takes longer than anybody would wait."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"it was not so within {seconds:g} seconds"
        time.sleep(every)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though perhaps nobody has looked at how yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False

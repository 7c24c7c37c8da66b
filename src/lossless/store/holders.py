"""Who holds something in an archive that several processes use, and whether that process is still there."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

_HOLDER = re.compile(r"([0-9a-f]{12}):(\d{1,9})-")
#: What tells a machine, its last start, and the processes that see each other there.
_BOOT, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"


def new_holder() -> str:
    """A name for somebody in this process; never given twice."""
    return f"{_machine()}:{os.getpid()}-{uuid4().hex[:8]}"


def is_gone(holder: str) -> bool:
    """Whether a holder was a process of this machine that has ended; one elsewhere may still be at work."""
    named = _HOLDER.match(holder)
    if named is None or named[1] != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(named[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@cache
def _machine() -> str:
    seen = [os.uname().nodename if os.name == "posix" else ""]
    with suppress(OSError):  # a system without these
        seen += [_BOOT.read_text(), os.readlink(_PROCESSES)]
    return blake2b("\0".join(seen).encode(), digest_size=6).hexdigest()

"""Child processes that are forks of this one: they begin at once, because everything is imported already.

A fork must not open a database that this process has open at that moment: SQLite takes no notice of the fork.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class Fork:
    """Calls a function in a child, and has of `subprocess.Popen` what tests need."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.returncode: int | None = None
        reading, writing = os.pipe()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads are asleep, and the child uses none
            self.pid = os.fork()
        if self.pid == 0:
            os.dup2(writing, 1)
            os.dup2(self._errors.fileno(), 2)
            _be_a_child(function)
        os.close(writing)
        self.stdout = open(reading, encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self.kill()
        self.communicate()

    def poll(self) -> int | None:
        """The exit code, or the negative number of the signal, once it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < until, "the child does not end"
            time.sleep(0.002)
        return code

    def communicate(self) -> tuple[str, str]:
        """What it has written since, and to its standard error."""
        out = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait()
        err = ""
        if not self._errors.closed:
            self._errors.seek(0)
            err = self._errors.read()
            self._errors.close()
        return out, err


def run_forked(function: Callable[..., object], *arguments: object) -> tuple[int, str, str]:
    """Call a function in a child; its exit code and what it wrote."""
    child = Fork(lambda: function(*arguments))
    out, err = child.communicate()
    return child.wait(), out, err


def _be_a_child(function: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        signal.alarm(0)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        function()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (whatever it is, the parent is to see it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

"""What all tests share: how long property tests search, and an engine on a file of its own.

`LOSSLESS_EXAMPLES=1000` makes property tests try that many cases, new ones each time, and makes a failing case small.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import lossless
from lossless.testing import VirtualClock
from tests.built import built

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

# Started in the background, a shell has us ignore interrupts, and our child processes would, too.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):  # and after `nohup`, hangups
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Every HTTP client loads the machine's certificates, and nothing here speaks TLS: once is enough.
ssl.create_default_context = functools.cache(ssl.create_default_context)  # type: ignore[assignment]

# What is loaded while tests are collected stays; looking through it for garbage would take a third of the time.
gc.disable()

_EXAMPLES = os.environ.get("LOSSLESS_EXAMPLES")

settings.register_profile(
    "lossless",
    max_examples=int(_EXAMPLES or 8),
    derandomize=_EXAMPLES is None,
    phases=list(Phase) if _EXAMPLES else [Phase.explicit, Phase.generate],  # shrinking may take many minutes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("lossless")


def pytest_collection_finish() -> None:
    """From here on the collector of garbage looks at what tests make, not again and again at all that is loaded."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer() -> Generator[None, Any, Any]:
    """A test that hangs also ends the processes it has started: it may hang because they do."""
    timer = yield
    ring = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
    if callable(ring):
        signal.signal(signal.SIGALRM, _ending_children(ring))
    return timer


def _ending_children(ring: Callable[..., Any]) -> Callable[[int, object], None]:
    def end(number: int, frame: object) -> None:
        for listed in Path("/proc/self/task").glob("*/children"):
            for child in listed.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
        ring(number, frame)

    return end


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that go to the system's folder for temporary files stay within the tests'."""
    folder = str(tmp_path_factory.getbasetemp())
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr("tempfile.tempdir", folder)


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn is as wide as usual, whatever the terminal that tests are started from."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("LINES", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where an archive may be made."""
    return tmp_path / "lcm.db"


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    """An engine on an archive without messages; its clock stands still unless a test moves it."""
    with _open(built(path, _make_empty)) as opened:
        yield opened


def _open(path: Path) -> lossless.Engine:
    return lossless.open(path, lossless.Settings(payloads_in_files=False), clock=VirtualClock(), background=False)


def _make_empty(path: Path) -> None:
    _open(path).close()

"""Progress on standard error, for somebody who watches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import DownloadColumn, MofNCompleteColumn


@contextmanager
def counting(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that counts things; call it with how many more are done. It is gone when all is done."""
    from rich.progress import MofNCompleteColumn

    yield from _bar(what, total, MofNCompleteColumn())


@contextmanager
def reading(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that counts bytes."""
    from rich.progress import DownloadColumn

    yield from _bar(what, total, DownloadColumn())


def _bar(what: str, total: int | None, count: MofNCompleteColumn | DownloadColumn) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda more: progress.advance(task, more)

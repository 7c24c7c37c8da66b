"""The seam between the archive and an engine that runs SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object] | Sequence[object]


class Database(Protocol):
    """Runs statements and keeps transactions.

    `transaction` writes all or nothing and is durable when it returns; nested ones join the outer.
    `snapshot` makes several reads see one state. Errors of the engine arrive as `ArchiveError`s.
    """

    path: str
    read_only: bool

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """All rows of a query."""
        ...

    def row(self, sql: str, params: Params = ()) -> Row | None:
        """The first row of a query, or None."""
        ...

    def run(self, sql: str, params: Params = ()) -> None:
        """Run a statement whose rows do not matter."""
        ...

    def run_many(self, sql: str, params: Iterable[Params]) -> None:
        """Run a statement once per set of parameters."""
        ...

    def changes(self) -> int:
        """How many rows the last statement of this thread changed."""
        ...

    def last_id(self) -> int:
        """The integer key of the row that this thread inserted last."""
        ...

    def transaction(self, *, exclusive: bool = False) -> AbstractContextManager[None]:
        """Write several statements as one."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Read several statements as one."""
        ...

    def reconnect(self) -> None:
        """Open this thread's connection anew, with the temporary tables that it begins with."""
        ...

    def close(self) -> None:
        """Let go of the file in every thread."""
        ...

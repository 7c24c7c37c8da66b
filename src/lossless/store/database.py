"""The protocol between the archive and a database, the named queries of `queries/*.sql`, and the range of
conversations that a query reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import ItemsView
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


class Queries:
    """The queries of one file, by name: `load("messages")["insert"]`."""

    def __init__(self, file: str, texts: dict[str, str]) -> None:
        self._file, self._texts = file, texts

    def __getitem__(self, name: str) -> str:
        try:
            return self._texts[name]
        except KeyError:
            raise LookupError(f"no query {name!r} in queries/{self._file}.sql") from None

    def items(self) -> ItemsView[str, str]:
        """Names and texts, in the order of the file."""
        return self._texts.items()


@cache
def load_queries(file: str) -> Queries:
    """The queries of `queries/<file>.sql`."""
    text = files(__package__).joinpath("queries", f"{file}.sql").read_text(encoding="utf-8")
    named: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("-- name:"):
            current = named.setdefault(line.removeprefix("-- name:").strip(), [])
        elif current is not None and not line.startswith("--"):
            current.append(line)
    return Queries(file, {name: "\n".join(lines).strip() for name, lines in named.items()})


@cache
def load_schema(file: str) -> str:
    """The DDL of `schema/<file>.sql`."""
    return files(__package__).joinpath("schema", f"{file}.sql").read_text(encoding="utf-8")


def conversation_range(conversation_id: int | None) -> dict[str, object]:
    """The first and the last number of the conversations that are meant; None means all.

    One condition for both cases keeps to the indexes that begin with the conversation.

    >>> conversation_range(7)
    {'first': 7, 'last': 7}
    """
    if conversation_id is None:
        return {"first": -(2**63), "last": 2**63 - 1}
    return {"first": conversation_id, "last": conversation_id}

"""Named queries: `queries/<file>.sql` holds them, each under a `-- name:` line."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import ItemsView


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
def load(file: str) -> Queries:
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
def schema(file: str) -> str:
    """The DDL of `schema/<file>.sql`."""
    return files(__package__).joinpath("schema", f"{file}.sql").read_text(encoding="utf-8")

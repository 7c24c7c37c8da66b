"""Queries of the archive's owner: read-only, bounded in rows and time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import apsw

from lossless.errors import BadInput
from lossless.store.sqlite import refused

if TYPE_CHECKING:
    from lossless.store.database import Params
    from lossless.store.sqlite import SqliteDatabase

#: Virtual-machine steps between two looks at the clock.
_STEPS = 10_000
#: The longest text or blob that a query may make, in bytes.
_MAX_BYTES = 256 << 20
_READS = frozenset((apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE))
_PRAGMAS = frozenset(("table_info", "table_xinfo", "table_list", "index_list", "index_info", "data_version"))


def select(database: SqliteDatabase, query: str, params: Params, limit: int, seconds: float) -> list[dict[str, Any]]:
    """The rows of a query; `BadInput` for one that writes, is wrong, takes too long or has too many rows."""
    if limit < 1 or seconds <= 0:
        raise BadInput("limit must be 1 or more, and seconds more than 0")
    until = time.monotonic() + seconds
    with database.aside() as connection:
        longest = connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_BYTES)
        connection.authorizer = _only_reading
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        try:
            cursor = connection.execute(query, params or None)
            rows: list[dict[str, Any]] = []
            names: list[str] = []
            for row in cursor:
                if len(rows) == limit:
                    raise BadInput(f"the query has more than {limit:,} rows: narrow it, or pass a higher limit")
                names = names or _names(cursor)
                rows.append(dict(zip(names, row, strict=True)))
            return rows
        except apsw.InterruptError:
            raise BadInput(f"the query took longer than {seconds:g} s: narrow it, or pass more seconds") from None
        except (apsw.AuthError, apsw.ReadOnlyError) as error:
            raise BadInput("the query may only read; it is no plain SELECT") from error
        except (apsw.SQLError, apsw.BindingsError, apsw.TooBigError) as error:
            raise BadInput(f"the query cannot be run: {error}") from error
        except apsw.Error as error:
            raise refused(error, database.path) from error
        finally:
            connection.authorizer = None
            connection.set_progress_handler(None)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)


def _only_reading(operation: int, name: str | None, _second: str | None, _base: str | None, _inside: str | None) -> int:
    is_allowed = operation in _READS
    if operation == apsw.SQLITE_PRAGMA:
        is_allowed = name in _PRAGMAS
    elif operation == apsw.SQLITE_FUNCTION:
        is_allowed = _second != "load_extension"
    return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY


def _names(cursor: apsw.Cursor) -> list[str]:
    """The names of the columns; of equal ones the later get a number."""
    names: list[str] = []
    for name, *_ in cursor.get_description():
        count = sum(known == name or known.startswith(f"{name}:") for known in names)
        names.append(f"{name}:{count}" if count else name)
    return names

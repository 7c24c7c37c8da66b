"""Damage archives at random and see whether `lcm verify` finds it: `python -m bench.damage --runs 1000 --seed 1`

So many changes of rows (UPDATE, DELETE, INSERT on any table, and on payload files), then so many flipped bits of the
file. Each must be found, or leave prompts, search and export as they were, or be what another program may do
(`bench/damage_lawful.py`; these are listed at the end); those of payload files must be found. What `lcm verify` does
not find, `lcm doctor` must not call damage either.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import apsw

import lossless
from bench.damage_archives import BUILDERS, Outputs, outputs
from bench.damage_lawful import reason
from bench.measure import table, write
from lossless.files.vault import open_vault
from lossless.maintenance.doctor import examine
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from lossless.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Outcome: TypeAlias = Literal["found", "unchanged", "lawful", "missed", "traceback"]
#: Tables of a search index begin as it does and end so.
_SHADOWS = ("_data", "_idx", "_docsize", "_config", "_content")
OUTCOMES: tuple[Outcome, ...] = ("found", "unchanged", "lawful", "missed", "traceback")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done to an archive."""

    table: str
    verb: str
    column: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.table}{f'.{self.column}' if self.column else ''} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    archive: str
    change: Change
    outcome: Outcome
    detail: str
    #: The one value that a flipped bit has changed, where it matters.
    cell: Change | None = None


@dataclass(slots=True)
class Subject:
    """A prepared archive, of which each run damages a copy."""

    name: str
    folder: Path
    before: Outputs
    copy: Path = field(init=False)

    def __post_init__(self) -> None:
        self.copy = self.folder.parent / f"{self.name}-copy"

    def fresh(self) -> Path:
        """A copy under the same name every time: payloads are found by it."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.folder, self.copy)
        return self.copy / "lcm.db"


def prepare(folder: Path, names: Sequence[str] = tuple(BUILDERS)) -> list[Subject]:
    """Make the archives; their payloads lie beside the copies."""
    subjects = []
    for name in names:
        place = folder / f"{name}-copy"
        place.mkdir()
        BUILDERS[name](place / "lcm.db")
        connection = apsw.Connection(str(place / "lcm.db"))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        place.rename(folder / name)
        subject = Subject(name, folder / name, Outputs((), (), ()))
        subject.before = outputs(subject.fresh())
        if found := _verified(subject.fresh()):
            raise AssertionError(f"{name}: it is damaged before anything was done to it: {found}")
        if subject.before.errors:
            raise AssertionError(f"{name}: {subject.before.errors}")
        subjects.append(subject)
    return subjects


# --- rows ---


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def where(self) -> str:
        return " AND ".join(f'"{name}" IS ?' for name in self.key)


def _tables(connection: apsw.Connection) -> list[_Table]:
    """All tables that are stored, search tables included, with what names a row."""
    found = []
    for name, is_bare in connection.execute(
        "SELECT l.name, l.wr FROM pragma_table_list l JOIN sqlite_master m USING (name)"
        " WHERE l.schema = 'main' AND l.type IN ('table', 'shadow') AND m.rootpage > 0"
    ).fetchall():
        columns = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
        key = tuple(column for column, pk in columns if pk) if is_bare else ("rowid",)
        if connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchall():
            found.append(_Table(str(name), tuple(str(column) for column, _ in columns), tuple(map(str, key))))
    return found


def _other(dice: random.Random, value: Any) -> Any:
    """Another value in place of one: near it, or of another kind."""
    if dice.random() < 0.12:
        return dice.choice([None, "", b"", 0, -1, "text", b"\x00\xff", 2.5, 1 << 40])
    if isinstance(value, str | bytes) and value:
        at = dice.randrange(len(value))
        letters: Any = "xyz7 é" if isinstance(value, str) else [bytes([dice.randrange(256)])]
        other = dice.choice(letters)
        kinds = [value[:at] + other + value[at + 1 :], value[:at], value[:at] + other + value[at:], value[at + 1 :]]
        return dice.choice(kinds)
    if isinstance(value, int):
        return value + dice.choice([-1, 1, 2, 1000])
    return dice.choice([1, "words", "2026-02-03T04:05:06Z", "{}", b"bytes"])


def change_row(path: Path, dice: random.Random) -> Change:
    """Change one row of one table, past all rules that can be switched off."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    try:
        tables = _tables(connection)
        while True:
            chosen = dice.choice(tables)
            verb = dice.choices(("UPDATE", "DELETE", "INSERT"), (6, 2, 2))[0]
            key = dice.choice(connection.execute(f'SELECT {_names(chosen.key)} FROM "{chosen.name}"').fetchall())
            try:
                if change := _CHANGES[verb](connection, chosen, key, dice):
                    return change
            except (apsw.ConstraintError, apsw.MismatchError, UnicodeDecodeError):
                continue
    finally:
        connection.close()


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _update(connection: apsw.Connection, chosen: _Table, key: tuple[Any, ...], dice: random.Random) -> Change | None:
    column = dice.choice(chosen.columns)
    read = f'SELECT "{column}" FROM "{chosen.name}" WHERE {chosen.where}'
    (value,) = connection.execute(read, key).fetchall()[0]
    if isinstance(value, str) and value and dice.random() < 0.1:  # a byte that is no UTF-8
        raw = value.encode()
        at = dice.randrange(len(raw))
        connection.execute(
            f'UPDATE "{chosen.name}" SET "{column}" = CAST(? AS TEXT) WHERE {chosen.where}',
            (raw[:at] + b"\xff" + raw[at + 1 :], *key),
        )
        return Change(chosen.name, "UPDATE", column, f"{key}: a byte that is not text")
    other = _other(dice, value)
    if dice.random() < 0.2:
        pick = f'SELECT "{column}" FROM "{chosen.name}" ORDER BY random() LIMIT 1'
        ((other,),) = connection.execute(pick).fetchall()
    if dice.random() < 0.5 and isinstance(value, bytes):
        other = _other(dice, value)
    before = connection.execute(f'SELECT quote("{column}") FROM "{chosen.name}" WHERE {chosen.where}', key).fetchall()
    with connection:
        connection.execute(f'UPDATE "{chosen.name}" SET "{column}" = ? WHERE {chosen.where}', (other, *key))
    changed = (
        key
        if column not in chosen.key
        else tuple(other if name == column else one for name, one in zip(chosen.key, key, strict=True))
    )
    after = connection.execute(
        f'SELECT quote("{column}") FROM "{chosen.name}" WHERE {chosen.where}', changed
    ).fetchall()
    if before == after:
        return None
    return Change(chosen.name, "UPDATE", column, f"{key}: {value!r:.40} -> {other!r:.40}")


def _delete(connection: apsw.Connection, chosen: _Table, key: tuple[Any, ...], _: random.Random) -> Change:
    connection.execute(f'DELETE FROM "{chosen.name}" WHERE {chosen.where}', key)
    return Change(chosen.name, "DELETE", "", str(key))


def _insert(connection: apsw.Connection, chosen: _Table, key: tuple[Any, ...], dice: random.Random) -> Change:
    """A row like another, with other values in one to three columns and where they must be unique."""
    read = f'SELECT {_names(chosen.columns)} FROM "{chosen.name}" WHERE {chosen.where}'
    row = list(connection.execute(read, key).fetchall()[0])
    for at in {*dice.sample(range(len(row)), min(len(row), dice.randint(1, 3))), 0}:
        row[at] = _other(dice, row[at])
    marks = ", ".join("?" * len(row))
    connection.execute(f'INSERT INTO "{chosen.name}" ({_names(chosen.columns)}) VALUES ({marks})', row)
    return Change(chosen.name, "INSERT", "", f"like {key}")


_CHANGES = {"UPDATE": _update, "DELETE": _delete, "INSERT": _insert}


def change_payload(path: Path, dice: random.Random) -> Change | None:
    """Change or remove a file beside the archive; None when there is none."""
    files = sorted(file for file in (path.parent / "lcm-files").glob("*/file_*") if file.stat().st_size)
    if not files:
        return None
    file = dice.choice(files)
    data = bytearray(file.read_bytes())
    verb = dice.choice(("remove", "cut", "flip"))
    if verb == "remove":
        file.unlink()
    elif verb == "cut":
        file.write_bytes(bytes(data[: len(data) // 2]))
    else:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        file.write_bytes(bytes(data))
    return Change("payload", verb, "", file.name)


def flip_bit(path: Path, dice: random.Random) -> Change:
    """Flip one bit of the file."""
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)
    path.write_bytes(bytes(data))
    return Change("file", "flip", "", f"byte {at}")


# --- what comes of it ---


def _verified(path: Path) -> str:
    """What `lcm verify` finds wrong; empty when it finds nothing."""
    try:
        with Archive.open(path, read_only=True) as archive, archive.reading():
            found = verify_archive(archive, vault=open_vault(str(path), None))
    except lossless.LosslessError as error:
        return f"{type(error).__name__}: {error}"
    return next((str(problem) for problem in found.problems if problem.severity == "error"), "")


def _doctor_finds(path: Path) -> str:
    """What `lcm doctor` calls damage beyond a proof of every row; its exit code must be that of `lcm verify`."""
    with Archive.open(path, read_only=True) as archive:
        found = examine(archive, VirtualClock()(), vault=open_vault(str(path), None)).findings
    wrong = (one for one in found if one.severity == "problem")
    return next((f"only the doctor finds it: {one.message}" for one in wrong), "")


def _changed_cell(before: Path, after: Path) -> Change | None:
    """The one value that a flipped bit has changed; None when it is not one."""
    found: list[Change] = []
    connection = apsw.Connection(str(after))
    try:
        connection.execute("ATTACH ? AS whole", (str(before),))
        for one in _tables(connection):
            if "_fts" in one.name or one.name.endswith(_SHADOWS):
                continue
            for column in one.columns:
                sql = f'SELECT quote(CAST("{column}" AS BLOB)), typeof("{column}") FROM {{}}."{one.name}"'
                both = [connection.execute(sql.format(schema)).fetchall() for schema in ("main", "whole")]
                if both[0] != both[1]:
                    found.append(Change(one.name, "UPDATE", column))
    except (apsw.Error, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    return found[0] if len(found) == 1 else None


def judge(subject: Subject, change: Change, path: Path) -> Result:
    """Whether it was found, and if not, whether anything is different."""
    damaged = path.read_bytes()
    try:
        found = _verified(path)
        after = outputs(path)
    except Exception:  # noqa: BLE001 - any that is not ours is what this looks for
        return Result(subject.name, change, "traceback", traceback.format_exc(limit=-6))
    if found:
        return Result(subject.name, change, "found", found)
    if alone := _doctor_finds(path):
        return Result(subject.name, change, "missed", alone)
    if change.table == "payload":
        return Result(subject.name, change, "missed", "every payload that is gone or has other bytes must be named")
    differing = subject.before.differing(after)
    if not differing:
        return Result(subject.name, change, "unchanged", "")
    cell: Change | None = change
    if change.table == "file":
        path.write_bytes(damaged)  # without what the prompts above have noted
        cell = _changed_cell(subject.folder / "lcm.db", path)
    if cell and (why := reason(cell.table, cell.verb, cell.column)):
        return Result(subject.name, change, "lawful", why, cell)
    return Result(subject.name, change, "missed", "\n  ".join(differing))


def damage(subjects: Sequence[Subject], runs: int, seed: int) -> Iterator[tuple[str, Result]]:
    """Damage copies, so many by rows and so many by bits."""
    for kind in ("rows", "bits"):
        for run in range(runs):
            dice = random.Random(f"{seed} {kind} {run}")
            subject = subjects[run % len(subjects)]
            path = subject.fresh()
            change = flip_bit(path, dice) if kind == "bits" else None
            if change is None and dice.random() < 0.04:
                change = change_payload(path, dice)
            yield kind, judge(subject, change or change_row(path, dice), path)


#: Values of each kind that a column can hold.
_KINDS: tuple[object, ...] = (b"\x00\xff", "words", 2.5, -7, 1 << 40)


def other_kinds(subject: Subject, seed: int) -> Iterator[tuple[str, Result]]:
    """Give every column of every table, in its last row, a value of another kind; another seed gives others."""
    connection = apsw.Connection(str(subject.folder / "lcm.db"))
    tables = [one for one in _tables(connection) if not one.name.endswith(_SHADOWS)]
    connection.close()
    cells = [(one, column) for one in tables for column in one.columns]
    for n, (one, column) in enumerate(cells, seed):
        path, value = subject.fresh(), _KINDS[n % len(_KINDS)]
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        keys = connection.execute(f'SELECT {_names(one.key)} FROM "{one.name}"').fetchall()
        try:
            connection.execute(f'UPDATE "{one.name}" SET "{column}" = ? WHERE {one.where}', (value, *keys[-1]))
        except (apsw.ConstraintError, apsw.MismatchError):
            continue
        finally:
            connection.close()
        yield "kinds", judge(subject, Change(one.name, "UPDATE", column, f"{keys[-1]} -> {value!r}"), path)


def summary(results: Sequence[tuple[str, Result]]) -> list[dict[str, object]]:
    """How many came to what, by table."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for kind, result in results:
        counts.setdefault((kind, result.change.table), Counter())[result.outcome] += 1
    rows = [
        {"damage": kind, "table": name, "runs": sum(some.values()), **{outcome: some[outcome] for outcome in OUTCOMES}}
        for (kind, name), some in sorted(counts.items())
    ]
    whole = Counter(result.outcome for _, result in results)
    return [*rows, {"damage": "all", "table": "", "runs": len(results), **{one: whole[one] for one in OUTCOMES}}]


def lawful(results: Sequence[tuple[str, Result]]) -> list[dict[str, object]]:
    """What was changed and may be: how often, and why."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, result in results:
        if result.outcome == "lawful":
            cell = result.cell or result.change
            counts[f"{cell.verb} {cell.table}{f'.{cell.column}' if cell.column else ''}", result.detail] += 1
    return [{"change": change, "runs": count, "why": why} for (change, why), count in sorted(counts.items())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1_000, help="so many changes of rows, and as many flipped bits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", action="store_true", help="also give every column a value of another kind")
    parser.add_argument("--show", type=int, default=20, help="show so many of those that were missed")
    asked = parser.parse_args(arguments)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        subjects = prepare(Path(name))
        results = list(damage(subjects, asked.runs, asked.seed))
        results += [result for subject in subjects if asked.kinds for result in other_kinds(subject, asked.seed)]
    rows = summary(results)
    table(rows, f"{asked.runs:,} changes of rows and {asked.runs:,} flipped bits, seed {asked.seed}")
    wrong = [result for _, result in results if result.outcome in ("missed", "traceback")]
    for result in wrong[: asked.show]:
        sys.stdout.write(f"\n{result.outcome}: {result.archive}: {result.change}\n  {result.detail}\n")
    listed = lawful(results)
    if listed:
        table(listed, "What another program may do")
    write("damage", [*rows, *listed], {"input": "made-up archives", "seed": asked.seed})
    sys.stdout.write(f"\n{len(wrong)} of {len(results):,} were missed\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

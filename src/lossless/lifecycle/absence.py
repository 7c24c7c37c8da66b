"""The proof that words are nowhere in an archive: in no file of it, no row, no compressed column, no search index."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import LosslessError
from lossless.files.copies import folder_of
from lossless.lifecycle.forgetting import ENCODINGS
from lossless.model.masking import forms
from lossless.store.absence import Absence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.files.vault import Vault

_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Trace:
    """A place where words were found; `phrase` is their number in what was asked, from 1, and never the words."""

    phrase: int
    file: str
    #: The row and column, or `bytes` for a place that no row knows, such as a free page.
    place: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The outcome: which files were read, where words were found, and which files could not be read."""

    files: int
    bytes: int
    traces: tuple[Trace, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.traces and not self.unreadable


def files_of(archive_path: str, vault: Vault | None) -> list[Path]:
    """Every file of an archive: itself, its logs, payloads, backups with theirs, and unfinished copies."""
    place = Path(archive_path)
    beside = [entry for entry in sorted(place.parent.iterdir()) if entry.name.lstrip(".").startswith(place.name)]
    folders = [entry for entry in beside if entry.is_dir()]
    folders += [folder_of(entry) for entry in beside if entry.suffix == ".bak"]
    folders += [] if vault is None else [vault.root]
    found = [entry for entry in beside if entry.is_file()]
    for folder in dict.fromkeys(folders):
        found += [Path(where) / name for where, _, names in os.walk(folder) for name in sorted(names)]
    return list(dict.fromkeys(found))


def prove(
    archive_path: str, vault: Vault | None, phrases: Sequence[str], progress: Callable[[int], None] | None = None
) -> Absent:
    """Look for phrases in every file of an archive, as text, as UTF-16 and inside of JSON; reads only."""
    spelled = [tuple(forms(phrase)) for phrase in phrases]
    needles = [
        tuple({form.encode(encoding, "surrogatepass") for form in some for encoding in ENCODINGS}) for some in spelled
    ]
    traces: list[Trace] = []
    unreadable: list[str] = []
    files = files_of(archive_path, vault)
    size = 0
    for path in files:
        try:
            inside = list(_in_database(path, phrases, spelled, needles)) if _is_database(path) else []
            known = {trace.phrase for trace in inside}
            raw = [Trace(n, str(path), "bytes") for n in _in_bytes(path, needles, progress) if n not in known]
            traces += [*inside, *raw]
            size += path.stat().st_size
        except FileNotFoundError:  # a log that was emptied and taken away meanwhile
            continue
        except (OSError, LosslessError) as error:
            unreadable.append(f"{path}: {error}")
    return Absent(len(files), size, tuple(traces), tuple(unreadable))


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _in_database(
    path: Path, phrases: Sequence[str], spelled: Sequence[Sequence[str]], needles: Sequence[Sequence[bytes]]
) -> Iterator[Trace]:
    with Absence(str(path)) as database:
        for place, value in database.values():
            for n, (texts, some) in enumerate(zip(spelled, needles, strict=True), 1):
                is_text = isinstance(value, str)
                if any(one in value for one in texts) if is_text else any(one in value for one in some):
                    yield Trace(n, str(path), place)
        for table, phrase in database.leftovers(phrases):
            yield Trace(phrases.index(phrase) + 1, str(path), f"{table}: words of deleted rows in the index")


def _in_bytes(path: Path, needles: Sequence[Sequence[bytes]], progress: Callable[[int], None] | None) -> list[int]:
    """The numbers of the phrases that the bytes of a file hold."""
    longest = max((len(one) for some in needles for one in some), default=1)
    found: set[int] = set()
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            data = tail + chunk
            found.update(n for n, some in enumerate(needles, 1) if n not in found and any(one in data for one in some))
            tail = data[-longest:]
            if progress:
                progress(len(chunk))
    return sorted(found)

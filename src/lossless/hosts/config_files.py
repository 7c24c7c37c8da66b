"""Edit config files of other programs: planned as values, written atomically with a backup, and restored byte by
byte on uninstall.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.model.paths import create_private_file, replacing
from lossless.settings.json5 import escape_lone_surrogates, line_ending

if TYPE_CHECKING:
    from pathlib import Path

    #: A file's text, and what becomes of it; None where there is no file.
    Change = Callable[[str | None], str | None]

#: What the record of a file is for.
_NOTE = "what `lcm disconnect` puts back"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What a file holds, and what it is to hold; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    #: What a person should know about it: why it is left as it is.
    note: str = ""
    #: So many folders above it are there for this file alone, and go with it when they are empty.
    folders: int = 0
    #: A file that is made is for its owner only.
    is_private: bool = False
    #: Once it was made: where the copy of the file before it lies.
    backup: Path | None = None

    @property
    def change(self) -> str:
        """`unchanged`, `created`, `removed` or `changed`."""
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "removed" if self.after is None else "changed"


def read_text(path: Path) -> str | None:
    """The text of a file with its own line ends; None when there is none. Raises BadInput when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{str(path)!r} cannot be read and is left as it is: {error}") from error


def read_object(path: Path, text: str | None) -> dict[str, Any]:
    """The JSON object of a file's text; raises BadInput for anything else, so that no file is lost.

    An object with a key twice is anything else: who edits it would have to choose one of them.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise BadInput(
                duplicate_key_text(path, next(key for key in made if [name for name, _ in pairs].count(key) > 1))
            )
        return made

    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=once)
    except BadInput:
        raise
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{str(path)!r} is not JSON and was not changed: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{str(path)!r} holds no JSON object and is left as it is")
    return value


def duplicate_key_text(path: Path, key: str) -> str:
    """What is said of a file in which an object has a key twice."""
    return f"{str(path)!r} has the key {key!r} twice in one object and is left as it is; take one of them out"


def write_object(value: dict[str, Any], like: str | None) -> str:
    """A JSON object as text, with the indentation and the line ends of the text before it."""
    found = re.search(r"\n([ \t]+)\S", like or "")
    indent: int | str = 2 if found is None else found[1]
    return escape_lone_surrogates(json.dumps(value, indent=indent, ensure_ascii=False) + "\n").replace(
        "\n", line_ending(like or "")
    )


def apply_edits(edits: Sequence[FileEdit], now: datetime) -> list[FileEdit]:
    """Make edits, each at once; a file that changes is copied first, one that held nothing else is removed.

    All that is new is written next to the files before the first of them is touched. Raises BadInput when that fails,
    and for a file that another process has changed meanwhile; nothing of it is left behind then.
    """
    try:
        with ExitStack() as undo, ExitStack() as writing:
            done = [_staged(edit, now, undo, writing) for edit in edits]
            undo.pop_all()
        for edit in done:
            if edit.change == "removed":
                real = edit.path.resolve()
                real.unlink()
                with suppress(OSError):
                    for folder in real.parents[: edit.folders]:
                        folder.rmdir()
    except (OSError, UnicodeEncodeError) as error:
        raise BadInput(f"a file cannot be written and is left as it is: {error}") from error
    return done


def _staged(edit: FileEdit, now: datetime, undo: ExitStack, writing: ExitStack) -> FileEdit:
    """An edit with its copy; its new text takes the place of the file when `writing` ends.

    `undo` takes away what was made for it.
    """
    if edit.change == "unchanged":
        return edit
    if read_text(edit.path) != edit.before:
        raise BadInput(f"{str(edit.path)!r} was changed by another program meanwhile; run it again")
    if edit.after is None:
        return edit
    real, backup = edit.path.resolve(), None
    mode = 0o600 if edit.is_private else 0o644
    _make_folder(real.parent, undo)
    if edit.before is not None:
        mode, backup = real.stat().st_mode & 0o7777, _copied(real, now, undo)
    writing.enter_context(replacing(real, mode)).write_bytes(edit.after.encode())
    return replace(edit, backup=backup)


def _make_folder(folder: Path, undo: ExitStack) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.callback(folder.rmdir)


def _copied(file: Path, now: datetime, undo: ExitStack) -> Path:
    """A copy of a file under the first free name."""
    for n in count():
        copy = file.with_name(f"{file.name}.lcm-{now:%Y%m%dT%H%M%S}{f'-{n}' if n else ''}.bak")
        with suppress(FileExistsError):
            create_private_file(copy)
            break
    undo.callback(copy.unlink)
    shutil.copyfile(file, copy)
    shutil.copymode(file, copy)
    return copy


def record_path(path: Path) -> Path:
    """Where it is kept what a file held."""
    return path.with_name(f"{path.name}.lcm-before.json")


def read_record(path: Path) -> tuple[str | None, str] | None:
    """What a file held before ours came, and with ours; None when that was not written down, or cannot be read."""
    with suppress(ValueError, TypeError, KeyError):
        known = json.loads(read_text(record_path(path)) or "")
        before, after = known["before"], known["after"]
        if isinstance(before, str | None) and isinstance(after, str):
            return before, after
    return None


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """What is ours in one file: how it gets into the file's text, and out of it again."""

    path: Path
    put: Change
    take: Change


def plan_edits(parts: Sequence[ConfigPart], *also: FileEdit, is_removal: bool = False) -> list[FileEdit]:
    """The edits that put ours into files, or take it away again: first those of files, then those of their records."""
    own, records = [], list[FileEdit]()
    for part in parts:
        text = read_text(part.path)
        record = read_record(part.path)  # of this very text; else what is left without ours
        before = record[0] if record is not None and record[1] == text else part.take(text)
        after = before if is_removal else part.put(text)
        is_plain = is_removal or part.take(after) == before
        edit, *kept = edits_with_record(FileEdit(part.path, text, after), None if is_plain else (before, after))
        own.append(edit)
        records += kept
    return [*own, *also, *records]


def edits_with_record(own: FileEdit, kept: tuple[str | None, str | None] | None = None) -> list[FileEdit]:
    """An edit with that of the record: of what the file holds before and after it, or of nothing any more."""
    place = record_path(own.path)
    record = read_text(place)
    if record is None and kept is None:
        return [own]
    text = None if kept is None else json.dumps({"before": kept[0], "after": kept[1]}) + "\n"
    return [own, FileEdit(place, record, text, _NOTE, is_private=True)]


def undo_changes(now: Any, after: Any, before: Any) -> Any:
    """A value without what made `after` of `before`; what was changed since stays."""
    if now == after:
        return before
    if isinstance(now, dict) and isinstance(after, dict):
        before, made = before if isinstance(before, dict) else {}, {}
        for key, value in now.items():
            if key not in after:
                made[key] = value
            elif key in before or value != after[key]:
                made[key] = undo_changes(value, after[key], before.get(key))
        return made | {key: value for key, value in before.items() if key not in after}
    if isinstance(now, list) and isinstance(after, list):
        former = before if isinstance(before, list) else []
        return [item for item in now if item in former or item not in after]
    return now

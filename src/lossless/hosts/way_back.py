"""The way back from an installation: a file as it was before it, byte by byte, if nobody has changed it since.

Mostly that is what taking ours away gives. Where it is not (an object that was empty before, a last line without an
end), a file beside it keeps what was there; it goes with the installation.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from lossless.hosts.config_files import Edit, read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    #: A file's text, and what becomes of it; None where there is no file.
    Change = Callable[[str | None], str | None]

_NOTE = "what `lcm uninstall` puts back"


def record_of(path: Path) -> Path:
    """Where it is kept what a file held."""
    return path.with_name(f"{path.name}.lcm-before.json")


def digest(text: str | None) -> str | None:
    """What a text is known by; None where there is no file."""
    return None if text is None else sha256(text.encode()).hexdigest()


def there(path: Path, put: Change, take: Change) -> list[Edit]:
    """The edits that put ours into a file: its own, and that of the record, if there is or was one."""
    text, record = read_text(path), read_text(record_of(path))
    before, after = _before(text, record, take), put(text)
    kept = None if take(after) == before else json.dumps({"before": before, "after": digest(after)}) + "\n"
    return _edits(Edit(path, text, after), record, kept)


def back(path: Path, take: Change) -> list[Edit]:
    """The edits that take ours away again, and the record with it."""
    text, record = read_text(path), read_text(record_of(path))
    return _edits(Edit(path, text, _before(text, record, take)), record, None)


def _before(text: str | None, record: str | None, take: Change) -> str | None:
    """What a file held before ours came: as it is written down for this very text, else what is left without ours."""
    try:
        known = json.loads(record or "{}")
        before = known["before"] if known["after"] == digest(text) and text is not None else take(text)
    except (ValueError, TypeError, KeyError):
        return take(text)
    return before if before is None or isinstance(before, str) else take(text)


def _edits(own: Edit, record: str | None, kept: str | None) -> list[Edit]:
    if record is None and kept is None:
        return [own]
    return [own, Edit(record_of(own.path), record, kept, _NOTE, is_private=True)]

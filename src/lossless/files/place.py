"""Where the payloads of an archive lie."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lossless.files.vault import Vault
from lossless.paths import payload_folder

#: Where all archives of a folder kept their payloads once; they are still read there.
_SHARED = "lcm-files"


def vault_of(archive_path: str, large_files_dir: str | None) -> Vault | None:
    """The folder that the settings name, else one beside the archive with its name; none for an archive in memory."""
    if archive_path == ":memory:":
        return Vault(large_files_dir) if large_files_dir else None
    shared = Path(archive_path).parent / _SHARED
    return Vault(large_files_dir or payload_folder(archive_path), archive=archive_path, older=(shared,))


def lies_at(place: str, vault: Vault | None) -> Path:
    """Where bytes lie: where their row says, or, when the folder was moved, at the same place of the vault."""
    path = Path(place)
    moved = path if vault is None else vault.root / path.parent.name / path.name
    return moved if moved.is_file() and not path.is_file() else path


class Placed(Protocol):
    """A payload as its row tells of it."""

    @property
    def id(self) -> str:
        """By what messages name it."""
        ...

    @property
    def place(self) -> str:
        """Where its bytes should lie."""
        ...

    @property
    def size(self) -> int | None:
        """How many there should be."""
        ...

    def is_proven_by(self, data: bytes) -> bool:
        """Whether these are its bytes, as far as anybody can say."""
        ...


def damage_of(file: Placed, vault: Vault | None) -> str | None:
    """What is wrong with the bytes of a payload; None when nothing is."""
    try:
        path = lies_at(file.place, vault)
        if not path.is_file():
            return f"its bytes are not at {file.place}"
        if file.size is not None and path.stat().st_size != file.size:
            return f"{path} has another size than was stored"
        if path.stem != file.id:  # no row makes another file be read
            return None
        is_proven = file.is_proven_by(path.read_bytes())
    except (OSError, ValueError):
        return f"its bytes cannot be read at {file.place}"
    return None if is_proven else f"{path} does not hold the bytes that were stored"

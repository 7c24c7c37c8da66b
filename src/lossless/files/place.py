"""Where the payloads of an archive lie."""

from __future__ import annotations

from pathlib import Path

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

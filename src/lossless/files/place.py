"""Where the payloads of an archive lie."""

from __future__ import annotations

from pathlib import Path

from lossless.files.vault import Vault


def vault_of(archive_path: str, large_files_dir: str | None) -> Vault | None:
    """The folder that the settings name, else `lcm-files` beside the archive; none for an archive in memory."""
    if large_files_dir:
        return Vault(large_files_dir)
    return None if archive_path == ":memory:" else Vault(Path(archive_path).parent / "lcm-files")


def lies_at(place: str, vault: Vault | None) -> Path:
    """Where bytes lie: where their row says, or, when the folder was moved, at the same place of the vault."""
    path = Path(place)
    moved = path if vault is None else vault.root / path.parent.name / path.name
    return moved if moved.is_file() and not path.is_file() else path

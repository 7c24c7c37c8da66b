"""Payloads of other archives in the same folder: what one does not know may be another's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lossless.errors import BadInput, LosslessError
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from lossless.files.vault import Vault


def files_of_others(archive: Archive, vault: Vault) -> frozenset[str]:
    """The ids of all files that other archives keep in an archive's folder.

    Raises BadInput when it cannot be known who does, or one of them cannot be read.
    """
    if not vault.root.is_dir():
        return frozenset()
    users = vault.users()
    mine = os.path.realpath(archive.path)
    if not users.are_all:
        raise BadInput(
            f"the folder {str(vault.root)!r} is from before archives had folders of their own, so others may keep "
            "files there: name all archives that do, once, with `lcm files gc --used-by PATH`"
        )
    found: set[str] = set()
    for place in users.archives:
        if os.path.realpath(place) == mine:
            continue
        try:
            with Archive.open(place, read_only=True) as other:
                found |= other.files.ids()
        except LosslessError as error:
            raise BadInput(
                f"the archive {str(place)!r} keeps files in {str(vault.root)!r} and cannot be read ({error}); "
                "if it is gone, name those that are left with `lcm files gc --used-by PATH`"
            ) from error
    return frozenset(found)

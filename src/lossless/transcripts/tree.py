"""Which entries of a transcript were really said: the path from its last entry up to a root.

An id costs 24 bytes here, whatever its length, so that histories of millions of entries fit into memory.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.transcripts.entries import ANSWER

if TYPE_CHECKING:
    from collections.abc import Iterator

_NONE = 0
_ANSWER = 1
_MISSING = -1


@dataclass(frozen=True, slots=True)
class LeafPath:
    """The entries on the path, by their place in the file."""

    #: One byte for each entry of the file: 1 when it is on the path.
    kept: bytearray
    #: The places from the root to the leaf, when that is not the order of the file.
    order: array[int] | None = None


class Tree:
    """Ids and parents of entries, in the order of the file."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._parents = array("q")
        self._ties = array("q")
        self._is_linked = False
        self._is_complete = True

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: str | None, parent: str | None, tie: str | None = None) -> None:
        """The next entry; an empty id is none."""
        self._is_complete = self._is_complete and bool(id)
        self._is_linked = self._is_linked or bool(parent)
        self._ids.append(_hashed(id))
        self._parents.append(_hashed(parent))
        self._ties.append(_ANSWER if tie == ANSWER else _hashed(tie))

    def is_entry(self, place: int, id: str | None) -> bool:
        """Whether the entry at `place` has this id: False tells that the file was rewritten meanwhile."""
        return place < len(self._ids) and self._ids[place] == _hashed(id)

    def leaf_path(self) -> LeafPath | None:
        """The path from the last entry to its root; None when the order of the file is all there is.

        That is so when an entry has no id, no entry names a parent that is there, or the path meets a parent
        that is not there or an entry twice. Of entries with the same id, the last one counts.
        """
        if not (self._is_complete and self._is_linked):
            return None
        parents = _Parents(self._ids, self._parents)
        if all(parents.of(place) is None for place in range(len(self._ids))):
            return None
        kept, path = bytearray(len(self._ids)), array("q")
        place: int | None = len(self._ids) - 1
        while place is not None:
            if kept[place]:
                return None
            kept[place] = 1
            path.append(place)
            if self._parents[place] == _NONE:
                break
            place = parents.of(place)
        if place is None:
            return None
        path.reverse()
        if any(self._ties):
            self._keep_tied(kept, parents)
        elif any(after < before for before, after in _pairs(path)):
            return LeafPath(kept, path)
        return LeafPath(kept)

    def is_branched(self) -> bool:
        """Whether entries are not on the path to the last one."""
        found = self.leaf_path()
        return found is not None and not all(found.kept)

    def _keep_tied(self, kept: bytearray, parents: _Parents) -> None:
        """Add what was said together with an entry of the path: parallel calls and their answers."""
        for place, tie in enumerate(self._ties):
            if tie == _NONE or kept[place] or self._parents[place] == _NONE:
                continue
            parent = parents.of(place)
            if parent is not None and kept[parent] and tie in (_ANSWER, self._ties[parent]):
                kept[place] = 1


class _Parents:
    """Where the parent of an entry stands: mostly right before it, so only the other ids are looked up."""

    def __init__(self, ids: array[int], parents: array[int]) -> None:
        self._ids, self._parents = ids, parents
        self._last = _perhaps_repeated(ids)
        before = _NONE
        for id, parent in zip(ids, parents, strict=True):
            if parent != before:
                self._last[parent] = _MISSING
            before = id
        for place, id in enumerate(ids):
            if id in self._last:
                self._last[id] = place

    def of(self, place: int) -> int | None:
        parent = self._parents[place]
        found = self._last.get(parent)
        if found is not None:
            return None if found == _MISSING else found
        return place - 1 if place and self._ids[place - 1] == parent else None


def _perhaps_repeated(ids: array[int]) -> dict[int, int]:
    """All ids that occur more than once, and a few that do not, each with no place yet."""
    mask = (1 << (len(ids) * 8).bit_length()) - 1
    seen = bytearray(mask + 1)
    repeated = {}
    for id in ids:
        if seen[id & mask]:
            repeated[id] = _MISSING
        seen[id & mask] = 1
    return repeated


def _hashed(text: str | None) -> int:
    return hash(text) if text else _NONE


def _pairs(places: array[int]) -> Iterator[tuple[int, int]]:
    return zip(places, memoryview(places)[1:], strict=False)

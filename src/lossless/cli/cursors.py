"""Cursors: opaque words that say where the next page begins, good for one kind of list only."""

from __future__ import annotations

import base64
import binascii
import json
import re

from lossless.store.listings import Place

_VERSION = 1
_TIME = re.compile(r"-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|", re.ASCII)
_HIGHEST_ID = 2**63 - 1


def encode(resource: str, place: Place) -> str:
    """The word for a place in a list."""
    fields = {"v": _VERSION, "resource": resource, "timestamp": place.at, "id": place.id}
    return base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).decode().rstrip("=")


def decode(resource: str, kind: type[int] | type[str], word: str) -> Place:
    """The place that a word means; ValueError with the reason when it is none of this list's."""
    try:
        fields = json.loads(base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise ValueError("it is not a cursor; take one from `pagination.nextCursor`") from None
    if not isinstance(fields, dict) or fields.keys() != {"v", "resource", "timestamp", "id"}:
        raise ValueError("it is not a cursor; take one from `pagination.nextCursor`")
    if fields["v"] != _VERSION:
        raise ValueError("it comes from another version; begin again without it")
    if fields["resource"] != resource:
        raise ValueError(f"it is for another list ({fields['resource']!r:.40}), not for {resource}")
    at, id_ = fields["timestamp"], fields["id"]
    if not isinstance(at, str) or not _TIME.fullmatch(at) or type(id_) is not kind or not _is_id(id_):
        raise ValueError("it was changed; take one from `pagination.nextCursor`")
    return Place(at, id_)


def _is_id(id_: int | str) -> bool:
    if isinstance(id_, int):
        return 0 < id_ <= _HIGHEST_ID
    return id_.isprintable()

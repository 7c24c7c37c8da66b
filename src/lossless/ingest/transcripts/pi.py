"""Reads sessions of pi, the origin of OpenClaw's format: the same records, in older files without ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lossless.ingest.transcripts import openclaw

KIND = "pi"

_HEADER_KEYS = frozenset(("provider", "modelId", "thinkingLevel", "branchedFrom"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A header that names a model, or records without ids."""
    if not openclaw.recognises(records):
        return False
    heads = [record for record in records if record.get("type") == "session"]
    if any(is_own_header(head) for head in heads):
        return True
    others = [record for record in records if record.get("type") == "message"]
    return bool(others) and all("id" not in record for record in others)


def is_own_header(head: dict[str, Any]) -> bool:
    """Whether a header has a field that OpenClaw's never have, such as the model's name."""
    return not _HEADER_KEYS.isdisjoint(head)


READER = replace(openclaw.READER, kind=KIND, recognises=recognises)

"""Payloads kept outside the message text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A large payload: its bytes lie at `storage_uri`, the message carries a reference."""

    id: str
    conversation_id: int
    name: str | None
    mime: str | None
    byte_size: int | None
    line_count: int | None
    storage_uri: str
    exploration_summary: str | None
    created_at: datetime

"""Digests that an earlier version wrote are still proof: of rows as they were, and against rows that changed."""

from __future__ import annotations

import json
import sqlite3
from hashlib import blake2b
from typing import TYPE_CHECKING

import lossless

if TYPE_CHECKING:
    from pathlib import Path

_ROW = """SELECT m.message_id, x.digest, m.role, m.content, m.token_count, m.identity_hash, m.openclaw_sender_metadata,
m.created_at, m.large_content, x.fingerprint, x.preamble, x.format, x.skeleton, x.budget_tokens
FROM messages m JOIN message_extras x USING (message_id)"""


def _former(row: tuple[object, ...]) -> bytes:
    """The digest of a message without parts as it once was: of all its columns as JSON."""
    values = [f"x{value.hex()}" if isinstance(value, bytes) else value for value in row]
    return blake2b(json.dumps([values, []], separators=(",", ":")).encode(), digest_size=8).digest()


def test_former_digests_are_accepted_and_prove_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with lossless.open(path, background=False) as engine:
        engine.append("s", [{"role": "user", "content": f"note {n}: Straße, 数据 and a “quote”"} for n in range(3)])
        assert engine.verify().ok
    with sqlite3.connect(path) as raw:
        for id_, digest, *row in raw.execute(_ROW).fetchall():
            former = digest[:8] + _former(tuple(row)) + digest[16:]
            assert former != digest
            raw.execute("UPDATE message_extras SET digest = ? WHERE message_id = ?", (former, id_))
    with lossless.open(path, background=False) as engine:
        assert engine.verify().ok
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE messages SET token_count = token_count + 1 WHERE seq = 2")
    with lossless.open(path, background=False) as engine:
        assert not engine.verify().ok

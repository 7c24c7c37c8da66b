"""Writes to a database of lossless-claw as its host does, fifty turns a second: `python writing.py PATH`."""

from __future__ import annotations

import select
import sys
import time
from typing import Any

import apsw

TURNS_A_SECOND = 50


def main(path: str) -> int:
    """Turns of a question and an answer, one transaction each, until standard input ends; prints how many."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(5_000)
    started, turn = time.monotonic(), 0
    rows: Any = connection.execute(
        "SELECT (SELECT max(seq) FROM messages), (SELECT max(ordinal) FROM context_items)"
    ).fetchall()
    seq, ordinal = rows[0]
    while not select.select([sys.stdin], [], [], max(0.0, started + turn / TURNS_A_SECOND - time.monotonic()))[0]:
        with connection:
            for role in ("user", "assistant"):
                seq, ordinal = seq + 1, ordinal + 1
                connection.execute(
                    "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (1, ?, ?, ?, 9)",
                    (seq, role, f"turn {turn} by the {role}"),
                )
                connection.execute(
                    "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)"
                    " VALUES (1, ?, 'message', ?)",
                    (ordinal, connection.last_insert_rowid()),
                )
            connection.execute("UPDATE conversations SET updated_at = datetime('now') WHERE conversation_id = 1")
        turn += 1
    sys.stdout.write(f"{turn}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

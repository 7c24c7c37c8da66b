"""What `expand` returns: pieces of history in order, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Piece:
    """A summary or a message, or a part of one: its characters from `start` up to, without, `end`."""

    kind: Literal["summary", "message"]
    id: str
    text: str
    start: int
    end: int
    total: int
    level: int
    #: For a message the leaf over it, for a summary what it is a source of.
    under: str | None
    #: The piece as it is returned, its title over it, and what that takes.
    block: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Expansion:
    """What was opened; `tokens` is what it takes and what a grant is charged."""

    opened: tuple[str, ...]
    pieces: tuple[Piece, ...]
    #: Where it goes on, when it does.
    cursor: str | None = None
    #: What stands before it, when it was centred on a message.
    previous: str | None = None
    token_cap: int = 0

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def text(self) -> str:
        return "".join(piece.block for piece in self.pieces)

    @property
    def truncated(self) -> bool:
        return self.cursor is not None or self.previous is not None

    @property
    def ids(self) -> tuple[str, ...]:
        """What can be cited from it."""
        return tuple(dict.fromkeys(piece.id for piece in self.pieces))

    def __str__(self) -> str:
        lines = [self.text.rstrip("\n")] if self.pieces else []
        if not self.pieces:
            too_small = f"The token cap of {self.token_cap:,} is too small for the next piece; ask for more."
            lines.append(too_small if self.cursor else "There is nothing below.")
        if self.previous:
            lines.append(f'(there is more before; cursor="{self.previous}")')
        if self.cursor:
            lines.append(f'(truncated at {self.tokens:,} tokens; go on with cursor="{self.cursor}")')
        return "\n\n".join(lines)

    @property
    def details(self) -> dict[str, Any]:
        return {
            "expandedIds": list(self.opened),
            "citedIds": list(self.ids),
            "summaryCount": sum(piece.kind == "summary" for piece in self.pieces),
            "messageCount": sum(piece.kind == "message" for piece in self.pieces),
            "totalTokens": self.tokens,
            "tokenCap": self.token_cap,
            "truncated": self.truncated,
            "cursor": self.cursor,
            "previousCursor": self.previous,
            "pieces": [
                {"id": piece.id, "type": piece.kind, "level": piece.level, "under": piece.under,
                 "tokens": piece.tokens, "start": piece.start, "end": piece.end, "total": piece.total}
                for piece in self.pieces
            ],
        }  # fmt: skip

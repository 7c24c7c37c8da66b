"""How summaries, focus briefs and pins read to the model: the same input gives the same bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from lossless.formats.synthetic import PINNED_TEXT, correction
from lossless.model.messages import Message
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from lossless.store.summaries import ChangeBelow


def summary_message(xml: str, changes: Sequence[ChangeBelow] = ()) -> Message:
    """A rendered summary as the user message that carries it, with a line about what changed below it since."""
    return Message(role="user", content="\n".join([xml, *_corrections([changes])]))


def _corrections(changes: Sequence[Sequence[ChangeBelow]]) -> list[str]:
    return [correction([(one.message_id, one.kind, one.content) for one in some]) for some in changes if some]


# --- focus briefs ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FocusBrief:
    """A long summary written for one question; it stands for the summaries that it covers."""

    id: str
    prompt: str
    content: str
    tokens: int
    target_tokens: int
    created_at: datetime
    covered_latest_at: datetime | None = None
    covered_message_seq: int | None = None

    def covers(self, latest_seq: int | None, latest_at: datetime | None) -> bool:
        """Whether a summary whose newest message has this seq and time is replaced by the brief."""
        if self.covered_message_seq is not None and latest_seq is not None:
            return latest_seq <= self.covered_message_seq
        return self.covered_latest_at is not None and latest_at is not None and latest_at <= self.covered_latest_at


def focus_message(brief: FocusBrief, timezone: tzinfo = UTC, changes: Sequence[Sequence[ChangeBelow]] = ()) -> Message:
    """The brief as a user message; prompt and content are escaped, so neither can end its element.

    `changes` are those below the summaries that it stands for, a line for each.
    """
    attributes = {
        "id": brief.id,
        "prompt": brief.prompt,
        "token_count": str(brief.tokens),
        "target_tokens": str(brief.target_tokens),
        "created_at": _stamp(brief.created_at, timezone),
    }
    if brief.covered_latest_at is not None:
        attributes["covered_latest_at"] = _stamp(brief.covered_latest_at, timezone)
    if brief.covered_message_seq is not None:
        attributes["covered_message_seq"] = str(brief.covered_message_seq)
    attributes["trust"] = "untrusted"
    head = " ".join(f'{name}="{escape(value, quote=True)}"' for name, value in attributes.items())
    block = f"<focus_brief {head}>\n{escape(brief.content)}\n</focus_brief>"
    return Message(role="user", content="\n".join([block, *_corrections(changes)]))


def escape(text: str, *, quote: bool = False) -> str:
    """Text that cannot be taken for markup; with `quote` it may stand inside an attribute."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace('"', "&quot;").replace("\n", "&#10;") if quote else plain


def _stamp(moment: datetime, timezone: tzinfo) -> str:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(timezone).strftime("%Y-%m-%dT%H:%M:%S")


# --- pins -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that the user wants the model to see always, exactly as it is."""

    id: str
    text: str


def choose_pins(pins: Sequence[Pin], limit: int, share: float = 0.10) -> tuple[tuple[Pin, ...], tuple[Pin, ...]]:
    """The pins that fit into their share of `limit` tokens, oldest first, and those that do not."""
    kept: list[Pin] = []
    left_out: list[Pin] = []
    for pin in pins:
        block = pins_message([*kept, pin])
        fits = block is not None and block.tokens <= share * limit
        (kept if fits else left_out).append(pin)
    return tuple(kept), tuple(left_out)


def pins_message(pins: Sequence[Pin]) -> Message | None:
    """One user message with the pins, byte for byte; None without pins.

    A pin is not escaped. Its tag carries a mark drawn from its text when the text itself could end the block.
    """
    if not pins:
        return None
    content = "\n\n".join([PINNED_TEXT, *map(_pin_block, pins)])
    return Message(role="user", content=content, tokens=estimate_tokens(content))


def _pin_block(pin: Pin) -> str:
    tag = "pinned"
    while f"</{tag}" in pin.text:
        tag = f"pinned-{hashlib.sha256((tag + pin.text).encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f'<{tag} id="{escape(pin.id, quote=True)}">\n{pin.text}\n</{tag}>'

"""Evidence for a prompt: what was said earlier about what it asks, for a host that has compacted its context."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from lossless.errors import LosslessError
from lossless.maintenance.prompts import evidence_in_file, render_evidence


@dataclass(frozen=True, slots=True)
class _InPrompt:
    """The messages that the host's model sees: those since the compaction, and those that were quoted since."""

    through: int
    quoted: frozenset[object]

    def __contains__(self, message_id: object) -> bool:
        return (isinstance(message_id, int) and message_id > self.through) or message_id in self.quoted


def prompt_evidence(prompt: str, known: dict[str, object]) -> tuple[str, list[int]]:
    """Evidence for a prompt by what is written down about its session, and the messages that it quotes.

    Nothing of an archive that cannot be read.
    """
    path, conversation_id, through = known.get("archive"), known.get("conversationId"), known.get("through")
    limit, quoted = known.get("evidenceTokens"), known.get("quoted")
    if not isinstance(path, str) or not isinstance(limit, int):
        return "", []
    if not isinstance(conversation_id, int) or not isinstance(through, int):
        return "", []
    seen = _InPrompt(through, frozenset(quoted if isinstance(quoted, list) else ()))
    zone = known.get("timezone")
    now = datetime.now(UTC).astimezone(ZoneInfo(zone) if isinstance(zone, str) and zone else UTC)
    try:
        found = evidence_in_file(path, conversation_id, prompt, limit, now, seen)
    except LosslessError:
        return "", []
    return (render_evidence(found), [item.id for item in found]) if found else ("", [])

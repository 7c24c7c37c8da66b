"""Evidence for a prompt: what was said earlier about what it asks, for a host that has compacted its context."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from lossless.errors import LosslessError
from lossless.maintenance.prompts import evidence_in_file, render_evidence


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
    told = frozenset(quoted if isinstance(quoted, list) else ())

    def in_prompt(message_id: int) -> bool:
        """Whether the host's model sees a message: it came since the compaction, or was quoted since."""
        return message_id > through or message_id in told

    zone = known.get("timezone")
    now = datetime.now(UTC).astimezone(ZoneInfo(zone) if isinstance(zone, str) and zone else UTC)
    try:
        found = evidence_in_file(path, conversation_id, prompt, limit, now, in_prompt)
    except LosslessError:
        return "", []
    return (render_evidence(found), [item.id for item in found]) if found else ("", [])

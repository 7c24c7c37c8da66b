"""What the plugin's parameters mean: sessions, budgets, places of transcripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.openclaw.bridge import Model
from lossless.model.conversations import Session, matches_any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossless.settings import Settings


def session_of(params: Mapping[str, Any]) -> Session:
    """The session that a call is about."""
    return Session(key=words(params, "sessionKey"), id=words(params, "sessionId"))


def lane_of(params: Mapping[str, Any]) -> str:
    """The name by which a session's calls are kept in order; the key, which outlives runs, goes before the id."""
    return words(params, "sessionKey") or words(params, "sessionId") or ""


def words(params: Mapping[str, Any], name: str) -> str | None:
    """A text that is not blank, else None."""
    value = params.get(name)
    return value if isinstance(value, str) and value.strip() else None


def number(params: Mapping[str, Any], name: str) -> int | None:
    """A positive whole number, else None."""
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 1 else None


def model_of(params: Mapping[str, Any]) -> Model:
    """What a call says about the model of the turn."""
    return Model(words(params, "model"), number(params, "contextWindow"), number(params, "promptBudget"))


def observed_of(params: Mapping[str, Any]) -> int | None:
    """How many tokens the host counts in its whole prompt, frame and tools included; None when it does not say."""
    return number(params, "currentTokenCount")


def messages_of(params: Mapping[str, Any], name: str = "messages") -> list[dict[str, Any]]:
    """The messages of a call; BadInput when it has none to offer."""
    found = params.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise BadInput(f"{name} must be a list of messages")
    return found


def transcript_file(params: Mapping[str, Any]) -> Path | None:
    """The transcript when it is a file, as in OpenClaw up to 2026.7.1; later ones give a marker that is no path."""
    name = words(params, "sessionFile")
    return Path(name) if name is not None and os.path.isabs(name) else None


def target_of(params: Mapping[str, Any]) -> dict[str, str] | None:
    """Where the host keeps the transcript when it is no file: what its reader wants to know."""
    found = params.get("sessionTarget")
    if not isinstance(found, dict):
        return None
    named = {name: words(found, name) or words(params, name) for name in ("agentId", "sessionKey", "sessionId")}
    return {name: value for name, value in named.items() if value}


def is_ignored(settings: Settings, session: Session) -> bool:
    """Whether a session is none of our business, so that the host's own ways hold for it."""
    return not settings.enabled or matches_any(session.name, settings.ignore_session_patterns)

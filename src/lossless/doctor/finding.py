"""A finding of the doctor: something that a person should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["problem", "warning", "note"]

#: So many ids of a finding are named.
NAMED = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know.

    A problem: something is damaged or lost, as `lcm verify` proves it. A warning: everything that was said is there,
    but the archive does not work as it should. A note is for knowing only.
    """

    kind: str
    severity: Severity
    message: str
    #: What helps, as a command where there is one.
    remedy: str = ""
    conversation_id: int | None = None
    #: Ids that it is about, the first twenty.
    ids: tuple[str, ...] = ()

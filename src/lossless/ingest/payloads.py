"""Payloads leave new messages before these are stored; their bytes are on disk before their rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless import formats
from lossless.files.intercept import intercept
from lossless.files.keep import keep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lossless.files.intercept import Intercepted
    from lossless.files.vault import Vault
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Json
    from lossless.store.archive import Archive
    from lossless.store.messages import Appended, NewMessage


@dataclass(frozen=True, slots=True)
class Payloads:
    """Where payloads go, and from which size on."""

    vault: Vault
    threshold_tokens: int


def store(
    archive: Archive, conversation: Conversation, new: Sequence[NewMessage], payloads: Payloads | None, now: datetime
) -> Appended:
    """Append messages without their payloads, inside the caller's transaction."""
    caught = _caught(archive, conversation, new, payloads) if payloads else {}
    if payloads is None or not caught:
        return archive.messages.append(conversation, new, now)
    found = [payload for one in caught.values() for payload in one.payloads]
    keep(archive.files, payloads.vault, conversation.id, found, now)
    shown = [replace(item, message=caught[n].message) if n in caught else item for n, item in enumerate(new)]
    appended = archive.messages.append(conversation, shown, now)
    for n, one in caught.items():
        archive.files.note(appended.ids[n], one.message.role, one.notes)
    return appended


def without_payloads(
    archive: Archive, conversation: Conversation, item: NewMessage, payloads: Payloads | None, now: datetime
) -> tuple[NewMessage, Mapping[int, Mapping[str, Json]] | None]:
    """A message whose payloads were put into files, and what is noted about them; as it is when it has none."""
    caught = _caught(archive, conversation, [item], payloads).get(0) if payloads else None
    if payloads is None or caught is None:
        return item, None
    keep(archive.files, payloads.vault, conversation.id, caught.payloads, now)
    return replace(item, message=caught.message), caught.notes


def _caught(
    archive: Archive, conversation: Conversation, new: Sequence[NewMessage], payloads: Payloads
) -> dict[int, Intercepted]:
    """The messages that hold payloads, by their place in the batch."""

    def tool_of(call_id: str) -> str | None:
        for item in reversed(new):
            for call in item.message.tool_calls:
                if call.id == call_id:
                    return call.name
        stored = archive.files.call(conversation.id, call_id)
        return None if stored is None else stored.tool

    found: dict[int, Intercepted] = {}
    for n, item in enumerate(new):
        one = intercept(
            item.message,
            threshold_tokens=payloads.threshold_tokens,
            conversation_id=conversation.id,
            decode=formats.decode,
            tool_of=tool_of,
        )
        if one is not None:
            found[n] = one
    return found

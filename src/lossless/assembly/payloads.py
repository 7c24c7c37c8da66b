"""The newest turn as it came: payloads that lie in files are put back into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless import formats
from lossless.assembly.parts import estimated
from lossless.errors import ArchiveError, NotFound
from lossless.files.intercept import restored
from lossless.files.keep import reader
from lossless.model.context import MessageItem, newest_user_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.files.vault import Vault
    from lossless.model.context import ContextItem
    from lossless.model.messages import Message
    from lossless.store.archive import Archive


def payloads_of_turn(
    archive: Archive, items: Sequence[ContextItem], vault: Vault | None, capacity: int
) -> dict[int, Message | None]:
    """Messages from the newest user message on that have payloads, by ordinal: whole, or None where that is too much.

    The user's own message may take all there is; the others, newest first, half of it together. What does not fit, or
    whose file is gone, stays the reference that it is in the archive.
    """
    start = newest_user_index(items)
    if vault is None or start is None:
        return {}
    ordinals = {item.message_id: item.ordinal for item in items[start:] if isinstance(item, MessageItem)}
    recipes = archive.files.recipes(list(ordinals))
    if not recipes:
        return {}
    found: dict[int, Message | None] = {}
    left = capacity // 2
    for stored in reversed(archive.messages.many([id_ for id_ in ordinals if id_ in recipes])):
        ordinal, message = ordinals[stored.id], None
        try:
            if left > 0 or ordinal == items[start].ordinal:
                message = restored(stored.message, recipes[stored.id], reader(archive.files, vault), formats.decode)
        except (NotFound, ArchiveError):
            message = None
        if message is not None and ordinal == items[start].ordinal:
            message = message if estimated(message) <= capacity else None
        elif message is not None:
            left -= estimated(message)
            message = message if left >= 0 else None
        found[ordinal] = message
    return found

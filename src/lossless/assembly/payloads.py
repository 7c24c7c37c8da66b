"""The newest turn as it came: payloads that lie in files are put back into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless import formats
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
    archive: Archive, items: Sequence[ContextItem], vault: Vault | None, most_tokens: int
) -> dict[int, Message]:
    """Messages from the newest user message on with their payloads, by ordinal; newest first, up to `most_tokens`.

    What does not fit, or whose file is gone, stays the reference that it is in the archive.
    """
    start = newest_user_index(items)
    if vault is None or start is None:
        return {}
    ordinals = {item.message_id: item.ordinal for item in items[start:] if isinstance(item, MessageItem)}
    recipes = archive.files.recipes(list(ordinals))
    whole: dict[int, Message] = {}
    for stored in reversed(archive.messages.many([id_ for id_ in ordinals if id_ in recipes])):
        try:
            message = restored(stored.message, recipes[stored.id], reader(archive.files, vault), formats.decode)
        except (NotFound, ArchiveError):
            continue
        most_tokens -= message.tokens
        if most_tokens < 0:
            break
        whole[ordinals[stored.id]] = message
    return whole

"""An archive with a vault, and the way in which messages with payloads get into it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless import formats
from lossless.files.intercept import intercept, restore_message
from lossless.files.vault import Vault, payload_reader, write_payloads
from lossless.maintenance.engine_parts import EngineParts
from lossless.model.conversations import Session
from lossless.model.identity import fingerprint, identity_hash
from lossless.settings import Settings
from lossless.store.archive import Archive
from lossless.store.files import LargeFileRows
from lossless.store.messages import NewMessage

from .payloads import THRESHOLD, Body

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.files.document import Payload
    from lossless.model.messages import Message

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kept:
    """An archive, its rows of files, and its vault."""

    archive: Archive
    files: LargeFileRows
    vault: Vault

    @classmethod
    def open(cls, folder: Path) -> Kept:
        archive = Archive.open(folder / "lcm.db")
        return cls(archive, LargeFileRows(archive.database), Vault(folder / "lcm-files"))

    @property
    def parts(self) -> EngineParts:
        """The archive as an engine has it."""
        return EngineParts(self.archive, Settings(), None, lambda: NOW)

    def append(self, body: Body, *, threshold: int = THRESHOLD, key: str = "agent:main:main") -> int:
        """Store one message as a host's: identified, intercepted, written in one transaction."""
        message = formats.decode(body)
        with self.archive.writing():
            conversation = self.archive.conversations.open(Session(key=key), NOW)
            found = intercept(
                message, threshold_tokens=threshold, conversation_id=conversation.id, decode=formats.decode
            )
            payloads: tuple[Payload, ...] = found.payloads if found else ()
            self.files.add(write_payloads(self.files.many, self.vault, conversation.id, payloads, NOW))
            shown = found.message if found else message
            new = NewMessage(shown, identity_hash(message.role, message.content), fingerprint(message), NOW)
            (id_,) = self.archive.messages.append(conversation, [new], NOW).ids
            if found:
                self.files.note(id_, shown.role, found.notes)
        return id_

    def original(self, message_id: int) -> Message:
        """The message as the host sent it."""
        message = self.archive.messages.get(message_id).message
        recipe = self.archive.context.recipes([message_id])[message_id]
        return restore_message(message, recipe, payload_reader(self.files.many, self.vault), formats.decode)

"""What follows when a history was folded: its title, and a copy of its summaries in another conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.cli import failures
from lossless.cli.plain import done
from lossless.model.context import SummaryItem
from lossless.surgery import transplant as transplanting
from lossless.surgery.outcome import backed_up

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.lifecycle.outlook import Outlook
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Backup


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What a person wants beside the folding of one conversation."""

    title: str | None = None
    transplant_to: int | None = None

    @property
    def is_nothing(self) -> bool:
        return self.title is None and self.transplant_to is None

    def check(self, archive: Archive, outlook: Outlook, *, anew: bool) -> dict[str, Any]:
        """What would be done; refused before anything is written when it could not be."""
        return {
            "title": self._title(outlook.conversation),
            "transplant": self._transplant(archive, outlook, anew=anew),
        }

    def do(self, engine: Engine, conversation: Conversation, backup: Backup) -> dict[str, Any]:
        """Give the title, and copy the summaries; what is done already is left."""
        title = self._title(conversation)
        if self.title is not None and title == "given":
            backed_up(backup, "backfill")
            with engine.archive.writing():
                engine.archive.conversations.give_title(conversation.id, self.title)
        return {"title": title, "transplant": self._copy(engine, conversation, backup)}

    def _title(self, conversation: Conversation) -> str | None:
        if self.title is None:
            return None
        if conversation.title and conversation.title != self.title:
            message = f"Conversation {conversation.id} is called {conversation.title!r} already."
            hint = "A title is given once; leave --title out."
            raise failures.fail("bad_input", message, failures.BAD_ARGUMENTS, hint=hint, title=conversation.title)
        return "there" if conversation.title else "given"

    def _transplant(self, archive: Archive, outlook: Outlook, *, anew: bool) -> dict[str, Any] | None:
        if self.transplant_to is None:
            return None
        source_id, target_id = outlook.conversation.id, self.transplant_to
        archive.conversations.get(target_id)
        before = transplanting.earlier(archive, source_id, target_id)
        roots = _roots(archive, source_id)
        if before is not None and (before != roots or not outlook.is_idle):
            message = f"Conversation {target_id} has summaries of conversation {source_id} already."
            hint = f"`lcm undo --conversation-id {target_id}` takes that transplant back, if it was the last change."
            raise failures.fail("bad_input", message, failures.BAD_ARGUMENTS, hint=hint, conversationId=target_id)
        if before is not None:
            return {"to": target_id, "status": "there", "text": "", **done(None)}
        may_plan = outlook.is_idle or (bool(roots) and not anew) or source_id == target_id
        work = transplanting.plan(archive, source_id, target_id) if may_plan else None
        text = work.text if work is not None and outlook.is_idle else ""
        return {"to": target_id, "status": "planned", "text": text, **done(None)}

    def _copy(self, engine: Engine, conversation: Conversation, backup: Backup) -> dict[str, Any] | None:
        if self.transplant_to is None:
            return None
        archive, target_id = engine.archive, self.transplant_to
        if transplanting.earlier(archive, conversation.id, target_id) == _roots(archive, conversation.id):
            return {"to": target_id, "status": "there", "text": "", **done(None)}
        work = transplanting.plan(archive, conversation.id, target_id)
        report = transplanting.apply(archive, engine.vault, work, engine.surgery.writer.clock(), backup)
        return {"to": target_id, "status": "copied", "text": work.text, **done(report)}


def _roots(archive: Archive, conversation_id: int) -> tuple[str, ...]:
    """The summaries in a context, in order."""
    return tuple(item.summary_id for item in archive.context.items(conversation_id) if isinstance(item, SummaryItem))

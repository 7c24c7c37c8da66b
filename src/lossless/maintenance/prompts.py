"""Records about prompts: the evidence chosen for a user message, and a receipt for each prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from lossless.context.run import looks_secret
from lossless.errors import GrantError
from lossless.formats.synthetic import EVIDENCE_CLOSE, EVIDENCE_OPEN, quoted_line
from lossless.model.budget import budget_tokens
from lossless.model.context import EvidenceBlock, EvidenceNeed, QuoteSpan
from lossless.model.records import EvidenceRow
from lossless.model.tokens import estimate_tokens
from lossless.recall.evidence import Evidence, quotation_place, quoted_again, unasked_evidence
from lossless.recall.scope import Caller, resolve_scope

if TYPE_CHECKING:
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import Conversation, Session
    from lossless.store.archive import Archive

_DIGEST = 12
#: How long another process may hold an archive before nothing is quoted from it.
_BUSY_MS = 200
#: Tokens around the text of a message in the most verbose format.
_FRAME_TOKENS = 24


def render_evidence(found: Sequence[Evidence]) -> str:
    """The evidence block: one line per quotation, in message order."""
    ordered = sorted(found, key=lambda item: (item.created_at, item.conversation_id, item.seq))
    return EVIDENCE_OPEN + "\n".join(quoted_line(quotation_place(item), item.text) for item in ordered) + EVIDENCE_CLOSE


def find_evidence(
    archive: Archive, session: Session, words: str, limit: int, now: datetime, in_prompt: Callable[[int], bool]
) -> tuple[Evidence, ...]:
    """What the family of a session has about a user's words, that is not `in_prompt`, within so many tokens."""
    try:
        scope = resolve_scope(archive, Caller(session), now)
    except GrantError:
        return ()
    found = unasked_evidence(
        archive, scope, words, limit, now, in_prompt=in_prompt, is_fit=lambda text: not looks_secret(text)
    )
    while found and _block_tokens(render_evidence(found)) > limit:
        found = found[:-1]
    return found


def evidence_in_file(
    path: str, conversation_id: int, words: str, limit: int, now: datetime, in_prompt: Callable[[int], bool]
) -> tuple[Evidence, ...]:
    """The same for a conversation of an archive that is not open: it is only read, and not waited for."""
    from lossless.store.archive import Archive

    with Archive.open(path, read_only=True, busy_timeout_ms=_BUSY_MS) as archive:
        session = archive.conversations.get(conversation_id).session
        return find_evidence(archive, session, words, limit, now, in_prompt)


class EvidenceMemory:
    """The evidence of one conversation while one prompt is assembled: known and newly chosen."""

    def __init__(self, parts: EngineParts, conversation: Conversation, prompt: str | None = None) -> None:
        self.parts, self.conversation, self.prompt = parts, conversation, prompt
        self._need: EvidenceNeed | None = None
        self._chosen: EvidenceBlock | None = None
        #: Rows whose user message is now stored, with its id; and rows with quotations that have changed.
        self._bound: dict[int, int] = {}
        self._changed: set[int] = set()
        self.fold = parts.archive.prompts.newest_fold(conversation.id)
        rows = parts.archive.prompts.evidence(conversation.id, self.fold)
        self.known = [block for row in rows if (block := self._block(row)) is not None]

    def _block(self, row: EvidenceRow) -> EvidenceBlock | None:
        """A recorded block as it was shown; without quotes when one of them was changed or removed."""
        message_id = row.message_id
        if message_id is None:
            message_id = self.parts.archive.prompts.user_after(self.conversation.id, row.after_id)
            if message_id is None and row.asked != _digest(self.prompt or ""):
                return None
            if message_id is not None:
                self._bound[row.id] = message_id
        if row.quotes:
            content = render_evidence(quoted_again(self.parts.archive, row.quotes, self.parts.here()))
            hidden = self.parts.archive.prompts.hidden([span.message_id for span in row.quotes])
            if not hidden and _digest(content) == row.digest:
                return EvidenceBlock(message_id, content, row.quotes, row.id)
            self._changed.add(row.id)
        return EvidenceBlock(message_id, "", (), row.id)

    def choose(self, need: EvidenceNeed, /) -> EvidenceBlock | None:
        """Evidence for the newest user message; None when nothing in the session's family matches."""
        if not need.is_folded:  # everything is in the prompt, or the user started over
            return None
        archive, now = self.parts.archive, self.parts.here()
        self._need = need
        shown = need.shown | ({need.message_id} if need.message_id is not None else set())
        found = find_evidence(archive, self.conversation.session, need.words, need.max_tokens, now, shown.__contains__)
        if found:
            quotes = tuple(item.span for item in found if item.span is not None)
            self._chosen = EvidenceBlock(need.message_id, render_evidence(found), quotes)
        return self._chosen

    def save(self, shown: Sequence[EvidenceBlock]) -> None:
        """Record what was chosen, and what left the prompt; inside a transaction."""
        prompts, now = self.parts.archive.prompts, self.parts.clock()
        for row_id, message_id in self._bound.items():
            prompts.bind_evidence(row_id, message_id)
        there = {block.row_id for block in shown}
        gone = {block.row_id for block in self.known if block.quotes and block.row_id is not None} - there
        if gone or self._changed:
            prompts.empty_evidence({id_ for id_ in gone | self._changed if id_ is not None})
        if self._need is not None:
            prompts.add_evidence(self.conversation.id, self.fold, self._row(self._need, shown), now)

    def _row(self, need: EvidenceNeed, shown: Sequence[EvidenceBlock]) -> EvidenceRow:
        chosen = self._chosen if self._chosen in shown else None
        quotes: tuple[QuoteSpan, ...] = () if chosen is None else chosen.quotes
        newest = self.parts.archive.messages.newest_users([self.conversation.id]).get(self.conversation.id, 0)
        digest = None if chosen is None else _digest(chosen.content)
        asked = _digest(need.words) if need.message_id is None else None
        tokens = 0 if chosen is None else _block_tokens(chosen.content)
        return EvidenceRow(0, need.message_id, newest, asked, quotes, tokens, digest)


def _block_tokens(content: str) -> int:
    return max(estimate_tokens(json.dumps(content, ensure_ascii=False)), budget_tokens(content)) + _FRAME_TOKENS


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()

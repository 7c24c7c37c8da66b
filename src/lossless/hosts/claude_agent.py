"""Claude Agent SDK: a session store that keeps every transcript line, and what was said, in one archive.

options = ClaudeAgentOptions(session_store=LosslessSessionStore(engine), session_store_flush="eager")
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from lossless.errors import BadMessage
from lossless.formats import decode
from lossless.ingest.transcripts import claude_code
from lossless.ingest.transcripts.entries import RecordPosition
from lossless.model.conversations import Session
from lossless.model.messages import GENERATED_ID_PREFIX, Incoming, Message

if TYPE_CHECKING:
    from lossless.engine import Engine

Raw = dict[str, Any]


class LosslessSessionStore:
    """A `SessionStore`: lines lie in conversations of their own, and what they say where recall finds it.

    Nothing is ever deleted, so the SDK's optional `delete` is not offered.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Keep lines that are new; when the call returns they are on the disk, and said words in the archive."""
        if entries:
            await asyncio.to_thread(self._append, key, entries)

    async def load(self, key: Any) -> list[Any] | None:
        """All lines of a session in order; None when there is none."""
        return await asyncio.to_thread(self._kept, _lines(key)) or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project, with the time of their last line in milliseconds."""
        return await asyncio.to_thread(self._sessions, project_key)

    async def list_subkeys(self, key: Any) -> list[str]:
        """The sub-agents of a session."""
        known = await asyncio.to_thread(self._kept, _index(key["project_key"]))
        return [one["subpath"] for one in known if one["session_id"] == key["session_id"] and one.get("subpath")]

    def session(self, key: Any) -> Session:
        """What the archive calls a session."""
        below = f":{key['subpath']}" if key.get("subpath") else ""
        named = _named("claude", key["project_key"], key["session_id"], key.get("subpath"))
        return replace(named, id=f"{key['session_id']}{below}")

    def _append(self, key: Any, entries: list[Any]) -> None:
        self._keep(_index(key["project_key"]), [(_lines(key).key, dict(key))])
        self._keep(_lines(key), [(entry.get("uuid"), entry) for entry in entries])
        for session, messages in self._incoming_by_session(key, entries).items():
            self._engine.after_turn(session, new_messages=messages)

    def _incoming_by_session(self, key: Any, entries: list[Any]) -> dict[Session, list[Incoming]]:
        """What lines say, by session; older programs write sub-agents into the main transcript."""
        made: dict[Session, list[Incoming]] = {}
        for number, raw in enumerate(entries):
            (entry,) = claude_code.entries(raw, RecordPosition(number + 1, 0, 0))
            if entry.message is None:
                continue
            session = self.session(key if key.get("subpath") else {**key, "subpath": entry.lane})
            with suppress(BadMessage):  # of which the line is kept
                spoken = entry.message if isinstance(entry.message, Message) else decode(entry.message)
                made.setdefault(session, []).append(Incoming(spoken, entry.id, entry.created_at))
        return made

    def _keep(self, session: Session, lines: list[tuple[str | None, Raw]]) -> None:
        """Store lines as messages without words; what has an id that is known is not stored again."""
        blank = {"role": "system", "content": ""}
        kept = [Incoming(blank | {"line": line}, id_ or f"{GENERATED_ID_PREFIX}{uuid4()}") for id_, line in lines]
        self._engine.append(session, kept)

    def _kept(self, session: Session) -> list[Any]:
        return [stored.message.original["line"] for stored in self._engine.host.messages(session)]

    def _sessions(self, project_key: str) -> list[Raw]:
        mains = [key for key in self._kept(_index(project_key)) if not key.get("subpath")]
        found = [(key["session_id"], self._engine.browse.find(_lines(key))) for key in mains]
        return [{"session_id": id_, "mtime": int(one.updated_at.timestamp() * 1000)} for id_, one in found if one]


def _lines(key: Any) -> Session:
    return _named("claude-lines", key["project_key"], key["session_id"], key.get("subpath"))


def _index(project_key: str) -> Session:
    return _named("claude-sessions", project_key)


def _named(*names: str | None) -> Session:
    return Session(key=":".join(quote(name, safe="/", errors="surrogatepass") for name in names if name))

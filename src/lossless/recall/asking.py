"""The questions that the owner of an archive asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.model.conversations import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from lossless.files.vault import Vault
    from lossless.model.conversations import Session
    from lossless.recall.calls import ToolResult
    from lossless.recall.delegate import Model
    from lossless.recall.described import Description
    from lossless.recall.evidence import Recalled
    from lossless.recall.expanded import Expansion
    from lossless.recall.found import Findings
    from lossless.recall.grep import Means
    from lossless.recall.scope import GrepMode, Scope, SearchIn, Sort
    from lossless.recall.tools import Toolbox
    from lossless.settings import Settings
    from lossless.store.archive import Archive


class Asking(ABC):
    """Finds what was said, and gathers evidence. What this needs is loaded when the first question is asked."""

    archive: Archive
    settings: Settings
    _clock: Callable[[], datetime]
    _timezone: ZoneInfo | None
    vault: Vault | None

    def grep(
        self,
        pattern: str,
        *,
        mode: GrepMode = "full_text",
        sort: Sort = "relevance",
        session: Session | Conversation | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        scope: SearchIn = "both",
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        limit: int = 50,
        file_ids: Iterable[str] = (),
        cursor: str | None = None,
    ) -> Findings:
        """Find what was said: in one conversation, in a session's family, or, without either, in all.

        Any text will do; only a regular expression can be wrong (`BadPattern`). `since` is inside, `before` is not.
        """
        from lossless.recall.grep import grep, moment
        from lossless.recall.scope import GrepRequest

        times = moment("since", since), moment("before", before)
        request = GrepRequest(pattern, mode, scope, tuple(file_ids), *times, limit, sort)
        where = self._scope(session, conversation_id, everything=all_conversations)
        return grep(self.archive, where, request, self._here(), cursor=cursor, means=self._means())

    def recall(
        self,
        question: str,
        *,
        session: Session | Conversation | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        max_tokens: int | None = None,
    ) -> Recalled:
        """Evidence for a question in plain words, without a model; `str()` of it is what an agent reads."""
        from lossless.recall.recall import recall

        most = self.settings.recall_max_tokens if max_tokens is None else max_tokens
        where = self._scope(session, conversation_id, everything=all_conversations)
        return recall(self.archive, where, question, most, self._here())

    def sql(
        self,
        query: str,
        params: Sequence[object] | Mapping[str, object] = (),
        *,
        limit: int = 1000,
        seconds: float = 5.0,
    ) -> list[dict[str, Any]]:
        """The rows of a `SELECT` over the archive's tables, for looking at them beside an open engine.

        Nothing can be written by it. `BadInput` for a query with more rows, or that takes longer.
        """
        from lossless.store.select import select

        return select(self.archive.database, query, params, limit, seconds)

    def describe(
        self,
        id: str,
        *,
        session: Session | Conversation | None = None,
        conversation_id: int | None = None,
        token_cap: int | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
        cursor: str | None = None,
    ) -> Description:
        """Open one thing by its id: a summary (`sum_…`), a message (`msg#…`), a stored file (`file_…`)."""
        from lossless.recall.describe import DescribeRequest, describe

        request = DescribeRequest(
            token_cap, self.settings.max_expand_tokens, start_line=start_line, end_line=end_line, cursor=cursor
        )
        where = self._scope(session, conversation_id, everything=False)
        return describe(self.archive, id, where, self._here(), request, self.toolbox.open_file)

    def expand(
        self,
        ids: str | Iterable[str],
        *,
        session: Session | Conversation | None = None,
        conversation_id: int | None = None,
        max_depth: int = 1,
        token_cap: int | None = None,
        include_messages: bool = True,
        around: int | None = None,
        cursor: str | None = None,
    ) -> Expansion:
        """The words behind summaries, in order and within a budget; a cursor goes on where it stopped."""
        from lossless.recall.expand import ExpandRequest, expand
        from lossless.recall.references import parse_all

        named = parse_all([ids] if isinstance(ids, str) else ids, kinds=("summary", "message"))
        cap = token_cap or self.settings.max_expand_tokens
        request = ExpandRequest(named, max_depth, cap, include_messages, around)
        where = self._scope(session, conversation_id, everything=False)
        return expand(self.archive, request, where, self._here(), cursor)

    def answer(
        self,
        prompt: str,
        *,
        query: str | None = None,
        ids: Iterable[str] = (),
        session: Session | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        max_tokens: int = 2_000,
        timeout_seconds: float | None = None,
    ) -> ToolResult:
        """One answer to a question across summaries, with citations; without a model, the evidence itself."""
        from lossless.recall.scope import Caller

        args: dict[str, object] = {
            "prompt": prompt,
            "query": query or ("" if ids else prompt),
            "summaryIds": list(ids),
            "maxTokens": max_tokens,
            "allConversations": all_conversations or (session is None and conversation_id is None),
        }
        if conversation_id is not None:
            args["conversationId"] = conversation_id
        if timeout_seconds is not None:
            args["timeoutMs"] = int(timeout_seconds * 1000)
        return self.toolbox.call("lcm_expand_query", args, Caller(session, in_turn=False))

    @property
    def toolbox(self) -> Toolbox:
        """The tools for agents over this archive."""
        from lossless.recall.tools import Toolbox

        return Toolbox(self.archive, self.settings, self._here, self.vault, self._readers())

    def call_tool(self, name: str, args: object = None, *, session: Session | None = None) -> ToolResult:
        """Use one of the tools as an agent of this session would; errors are results, too."""
        from lossless.recall.scope import Caller

        return self.toolbox.call(name, args, Caller(session))

    @abstractmethod
    def _readers(self) -> tuple[Model, ...]:
        """The models that answer questions; none without a configured one."""

    def _scope(self, who: Session | Conversation | None, conversation_id: int | None, *, everything: bool) -> Scope:
        """Where a search looks; a session that has said nothing yet has nothing to look at."""
        from lossless.recall.scope import Caller, Scope, resolve

        if isinstance(who, Conversation):
            conversation_id, who = conversation_id or who.id, who.session
        everything = everything or (who is None and conversation_id is None)
        now = self._clock()
        try:
            return resolve(
                self.archive, Caller(who), now, conversation_id=conversation_id, all_conversations=everything
            )
        except BadInput as error:
            return Scope("family", (), str(error))

    def _means(self) -> Means:
        from lossless.recall.grep import Means

        settings = self.settings
        return Means(settings.regex_timeout_ms / 1000, settings.trigram_index, settings.regex_engine, self.vault)

    def _here(self) -> datetime:
        """Now, in the time zone of the settings."""
        return self._clock().astimezone(self._timezone or UTC)

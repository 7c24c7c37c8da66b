"""One turn with a provider: the request is stored and fitted, recall calls are answered, the reply is stored.

With the history `append` a request has only new messages, and a repeated request is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.context.render import RECALL_POLICY
from lossless.errors import BadInput, BadMessage
from lossless.ingest import events as incoming
from lossless.ingest.requests import cut_off_key
from lossless.ingest.window import count_system_head
from lossless.llm.response import parse_usage
from lossless.model.budget import HistoryBudget
from lossless.model.messages import ModelIdentity, ToolCall
from lossless.providers.api import ProviderAPI, Raw, ReplyEvents, dicts_in, text_of
from lossless.providers.token_limits import (
    PromptLimits,
    holds_payload,
    known_window,
    overhead_tokens,
    parse_too_long,
    recall_result,
    shows_all,
    window_tokens,
)
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from lossless.context.run import Assembled
    from lossless.engine import Engine
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Session

#: What the messages of a request are: the whole window, or only new messages.
History: TypeAlias = Literal["window", "append"]


def append_new(engine: Engine, session: Session, window: Sequence[Raw]) -> AppendReport:
    """Store the new messages of a request; its system prompt becomes the conversation's.

    Nothing is stored of a repeated request, and the lost reply leaves the context.
    """
    head = count_system_head(window)
    prompts, messages = window[:head], window[head:]
    if not incoming.read_events(messages)[0]:
        raise BadInput("the request has no new message, and with the history `append` that is what it is for")
    with engine.admin.transaction():
        if prompts:
            engine.sync(session, prompts)
        known = engine.host.find_resent(session, messages)
        report = engine.append(session, messages[known.count :])
        if known.lost and report.conversation is not None:
            engine.host.abandon(report.conversation, known.lost)
    return report


#: When a model gets our recall tools: when its prompt does not show everything, always, never.
RecallTools: TypeAlias = Literal["auto", "always", "never"]
_OURS = frozenset(tool.name for tool in TOOLS)
#: How many rounds of recall calls are answered before the model is told to finish.
_ROUNDS, _LAST_ROUND = 8, 10
#: The minimum size of a recall result.
_LEAST_ANSWER = 128
_ENOUGH = "No more recall in this turn: answer with what you have."
#: With less than one in N parts of the window left, a model gets our tools only if it always does.
_TOOLS_LEAVE = 4


@dataclass(frozen=True, slots=True)
class TurnRecorder:
    """The session, model and options of turns."""

    engine: Engine
    session: Session
    dialect: ProviderAPI
    provider: str = "openai"
    #: The model's window in tokens; else by its name, else the setting `defaultTokenBudget`.
    window: int | None = None
    tools: RecallTools = "auto"
    history: History = "window"

    def turn(self, body: Raw) -> Turn:
        """Store a request's messages, and make it fit."""
        turn = Turn(self, body)
        turn.open()
        return turn

    def reply(self, body: Raw) -> int:
        """The tokens reserved for the reply: what replies have needed, at most what the request allows."""
        return self.engine.host.reply_reserve(self.session, self.size(body), self.dialect.most_output(body))

    def size(self, body: Raw) -> int:
        return self.window or known_window(str(body.get("model"))) or self.engine.settings.default_token_budget


@dataclass(slots=True)
class Turn:
    """A request in progress. Send `body`; then `take` the reply, or `feed` its stream and call `end`."""

    keeping: TurnRecorder
    #: The request to send now.
    body: Raw
    #: Whether the messages differ from the client's own.
    is_assembled: bool = False
    #: Whether the archive has more than the messages show.
    is_partial: bool = False
    #: Why this turn is not stored, if it is not.
    not_kept: str | None = None
    hidden: frozenset[str] = frozenset()
    budget: int = 0
    window: list[Raw] = field(default_factory=list)
    rounds: int = 0
    #: Ids of the messages that the model sees in part, or as a reference to a file.
    shortened: tuple[str, ...] = ()
    #: By how many tokens the request exceeds the window, and why.
    over: int = 0
    why_over: str = ""
    stream: ReplyEvents = field(init=False)
    _whole: Raw | None = None
    #: The original request; the request as sent; the same with recall results; and its recall tools.
    _asked: Raw = field(default_factory=dict)
    _base: Raw = field(default_factory=dict)
    _bare: Raw = field(default_factory=dict)
    _tools: tuple[Raw, ...] = ()
    #: Replies with recall calls, and their results.
    _recalled: list[tuple[Raw, list[tuple[ToolCall, str]]]] = field(default_factory=list)
    #: Tokens sent besides the conversation.
    _overhead: int = 0
    #: The window's size, the tokens reserved for the reply, and those besides the conversation, recall tools included.
    _window_size: int = 0
    _reply: int = 0
    _total_overhead: int = 0
    #: Whether the model has the recall tools, or gets them if it needs them.
    _may_recall: bool = True
    #: Whether it was sent again with less after the provider refused it as too long.
    _was_refused: bool = False
    #: Whether the archive's counts apply to the request: not when it has a reference in place of the text.
    _is_counted: bool = True
    #: The reply's message ids, once it is stored.
    _kept: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.stream = self.keeping.dialect.stream(())
        self._asked = self._base = self._bare = self.body

    def open(self) -> None:
        """Store the request's messages, and assemble the request to send."""
        keeping, dialect = self.keeping, self.keeping.dialect
        self.window = dialect.window(self.body)
        tools, ours = _recall(type(dialect), frozenset(_OURS & dialect.tool_names(self.body)))
        self._overhead = overhead_tokens(tools=dicts_in(self.body.get("tools")))
        may_add = keeping.tools != "never" and dialect.may_call(self.body) and bool(tools)
        self._window_size, self._reply = keeping.size(self.body), keeping.reply(self.body)
        if keeping.tools == "auto":
            may_add = may_add and self._share(self._overhead + ours).tokens >= self._window_size // _TOOLS_LEAVE
        ours = ours if may_add else 0
        share = self._share(self._overhead + ours)
        self.budget, self._total_overhead, self._may_recall = share.tokens, self._overhead + ours, may_add
        try:
            report = self._store()
        except BadMessage as error:
            self.not_kept = str(error)
            return
        self.not_kept = report.blocked
        if report.conversation_id is None and self.not_kept is None:
            self.not_kept = "nothing of this session is stored"
        if self.not_kept is not None or dialect.knows_history(self.body):
            return
        self._fit(report)
        if may_add and (self.is_partial or keeping.tools == "always"):
            self._tools, self._overhead = tools, self._overhead + ours
            self.hidden = frozenset(name for tool in tools for name in dialect.tool_names({"tools": [tool]}))
            self.stream = dialect.stream(self.hidden)
        else:
            share = self._share(self._overhead)
        if share.over:
            self.over += share.over
            self.why_over = "; ".join(filter(None, (share.why_over, self.why_over)))
        self._with_recall()

    def _share(self, overhead: int) -> HistoryBudget:
        """The conversation's share of the model's window, besides so many other tokens and the reply."""
        return HistoryBudget(self._window_size, overhead, reply=self._reply)

    def _with_recall(self) -> None:
        dialect, body = self.keeping.dialect, self._bare
        self.body = body = dialect.with_recall(body, RECALL_POLICY, self._tools) if self._tools else body
        # the output limit is lowered to the window's free space: providers refuse what could become too long
        if not (asked := dialect.most_output(body)):
            return
        history = self._limits.history(self.keeping.session)
        sent = int((window_tokens(dialect.window(body)) + self._total_overhead) * history.factor) + history.frame
        remaining = max(self._window_size - sent, self._reply)
        if asked > remaining:
            self.body = dialect.with_most_output(body, remaining)

    def _fit(self, report: AppendReport) -> None:
        """Sends the window unchanged while it fits and is complete, else the assembled prompt."""
        engine, appends = self.keeping.engine, self.keeping.history == "append"
        is_all = shows_all(engine, report, self.window, prompts=appends) and self._has_room(report)
        made = None if is_all else self._assemble()
        if made is None or (self._is_whole(made, report) and self._has_room(report)):
            self._is_counted = not holds_payload(self.window, engine.settings.large_file_threshold_tokens)
            return
        self._show(made)
        # a prompt that shows every message of the context verbatim, and no summary, is complete
        shown, id_ = sum(form == "verbatim" for _, form in made.receipt.included), report.conversation_id
        self.is_partial = not appends or id_ is None or engine.host.context_counts(id_) != (shown, 0)

    def _show(self, made: Assembled) -> None:
        """Sends this prompt instead of the client's own messages, with the recall results so far."""
        system = made.system if self.keeping.history == "append" else ""
        self._base = self._bare = self.keeping.dialect.with_window(self._asked, made.messages, system)
        self.is_assembled, self.shortened = True, made.receipt.shortened
        self.over, self.why_over = made.receipt.over, made.receipt.why_over
        for reply, answers in self._recalled:
            self._bare = self.keeping.dialect.answered(self._bare, reply, answers)

    @property
    def notices(self) -> tuple[str, ...]:
        kept = () if self.not_kept is None else (f"not kept: {self.not_kept}",)
        return kept if not self.over else (*kept, f"{self.over:,} tokens over the window: {self.why_over}")

    def take(self, reply: Raw) -> Raw | None:
        """The reply for the client, stored; None when `body` must be sent again."""
        dialect = self.keeping.dialect
        calls = dialect.calls(reply)
        ours = [call for call in calls if call.name in self.hidden]
        shown = dialect.without_calls(reply, self.hidden) if ours else reply
        self._whole = shown if self._whole is None else dialect.joined(self._whole, shown)
        if ours and len(ours) == len(calls) and self.rounds < _LAST_ROUND:
            self.rounds += 1
            self._go_on(reply, ours)
            return None
        self._record(reply)
        return self._whole

    def refused(self, status: int, answer: str) -> bool:
        """Whether the provider refused the request as too long and `body`, now smaller, should be sent again."""
        found, dialect = parse_too_long(answer, status), self.keeping.dialect
        is_ours = self.not_kept is None and not dialect.knows_history(self._asked)
        if found is None or self._was_refused or not is_ours:
            return False
        self._was_refused = True
        counted, window = found
        sent = window_tokens(dialect.window(self._bare))
        self._window_size = min(window or self._window_size, self._window_size)
        self._limits.refused(self.keeping.session, counted, sent)
        self._store()
        made = self._assemble()
        if made is None or window_tokens(made.messages) >= sent:
            return False
        self._show(made)
        self._with_recall()
        return True

    def end(self) -> list[Raw] | None:
        """The last events of the stream, its reply stored; None when `body` must be sent again."""
        if not self.stream.is_over:
            self.broken()
        elif self.take(self.stream.reply()) is None:
            self.stream.again()
            return None
        return self.stream.ending()

    def broken(self) -> None:
        """Store the received part of a stream that was cut off or abandoned.

        With the history `append` it is marked as cut off in the same transaction: a client may ask again at once.
        """
        keeping, is_new = self.keeping, self._kept is None
        if is_new:
            dialect, rest = keeping.dialect, self.stream.reply()
            rest = dialect.without_calls(rest, {call.name for call in dialect.calls(rest)})
            self._whole = rest if self._whole is None else dialect.joined(self._whole, rest)
            if not dialect.reply_messages(self._whole):
                return
            if keeping.history != "append":
                self._record(rest)
        if keeping.history == "append" and self.not_kept is None:
            with keeping.engine.admin.transaction():
                if is_new and self._whole is not None:
                    messages = keeping.dialect.reply_messages(self._whole)
                    self._kept = keeping.engine.append(keeping.session, messages).message_ids
                if self._kept:
                    keeping.engine.append(keeping.session, (), key=cut_off_key(self._kept[0]))

    def _store(self) -> AppendReport:
        keeping = self.keeping
        if keeping.dialect.knows_history(self.body):
            return keeping.engine.append(keeping.session, self.window)
        engine, session, window = keeping.engine, keeping.session, self.window
        appends = keeping.history == "append"
        report = append_new(engine, session, window) if appends else engine.sync(session, window, whole=True)
        id_ = report.conversation_id
        if id_ is not None and engine.browse.context_budget(id_) > self._limits.history(session).tokens:
            # compact before, not after
            new, shown = ((), None) if appends else (None, window)
            self._limits.store(session, new_messages=new, window=shown, whole=not appends)
        return report

    def _is_whole(self, made: Assembled, report: AppendReport) -> bool:
        """Whether the prompt equals the client's own window, message by message: then that is sent unchanged."""
        receipt, count = made.receipt, len(self.window) - len(report.skipped)
        only_messages = all(form == "verbatim" and not id_.startswith("sum_") for id_, form in receipt.included)
        added = receipt.tokens_by_kind.get("pins and focus", 0) + receipt.tokens_by_kind.get("cue", 0)
        return only_messages and not receipt.left_out and not added and len(receipt.included) == count

    def _has_room(self, report: AppendReport) -> bool:
        capacity = self._limits.history(report.conversation or self.keeping.session).tokens
        return window_tokens(self.window) <= capacity

    @property
    def _limits(self) -> PromptLimits:
        name = str(self.body.get("model") or "unknown").encode("utf-8", "replace").decode()  # without lone surrogates
        model = ModelIdentity(self.keeping.provider, self.keeping.dialect.format, name)
        return PromptLimits(self.keeping.engine, self._window_size, self._total_overhead, self._reply, model)

    def _assemble(self, more: int = 0) -> Assembled | None:
        keeping, last = self.keeping, self.window[-1] if self.window else {}
        user = next((m for m in reversed(self.window) if m.get("role") == "user"), {})
        return self._limits.assemble(
            keeping.session,
            more,
            recall=self._may_recall or bool(_OURS & keeping.dialect.tool_names(self._asked)),
            prompt=text_of(user.get("content")) or None,
            format=keeping.dialect.format,
            allow_trailing_assistant=last.get("role") == "assistant",
        )

    def _go_on(self, reply: Raw, calls: list[ToolCall]) -> None:
        """Answers recall calls and prepares the next request; older history makes way for the results."""
        dialect = self.keeping.dialect
        given = sum(window_tokens([{"text": text}]) for _, answers in self._recalled for _, text in answers)
        limit = (self.budget // 2 - given) // len(calls)
        is_enough = self.rounds > _ROUNDS or limit < _LEAST_ANSWER
        engine, session = self.keeping.engine, self.keeping.session
        texts = (
            _ENOUGH if is_enough else recall_result(engine, session, call.name, call.arguments, limit).text
            for call in calls
        )
        self._recalled.append((reply, list(zip(calls, texts, strict=True))))
        self._bare = dialect.answered(self._bare, *self._recalled[-1])
        capacity, size = self._limits.history(self.keeping.session).tokens, window_tokens(dialect.window(self._bare))
        if size > capacity:
            made = self._assemble(size - window_tokens(dialect.window(self._base)))
            if made is not None:
                self._show(made)
        self._with_recall()

    def _record(self, reply: Raw) -> None:
        """Store what the client sees, with the provider's count for the last round."""
        keeping, dialect = self.keeping, self.keeping.dialect
        if self.not_kept is not None or self._whole is None:
            return
        messages, usage = dialect.reply_messages(self._whole), parse_usage(reply)
        prompt, counted = 0 if self.rounds else usage.input_tokens, {"output_tokens": usage.output_tokens}
        if prompt > 0:
            counted |= {"prompt_tokens": prompt, "cached_tokens": usage.cache_read}
        is_added = keeping.history == "append" or dialect.knows_history(self.body)
        report = self._limits.store(
            keeping.session,
            new_messages=messages if is_added else None,
            window=None if is_added else [*self.window, *messages],
            whole=not is_added,
            overhead=self._overhead,
            usage=counted if self._is_counted else None,
            observed_tokens=prompt if prompt > 0 and not self._is_counted else None,
        )
        self._kept = report.message_ids


@lru_cache(maxsize=64)
def _recall(kind: type[ProviderAPI], brought: frozenset[str]) -> tuple[tuple[Raw, ...], int]:
    """The recall tools except those whose names the client uses, and their tokens with the policy."""
    dialect = kind()
    tools = [tool for tool in dialect.tools() if not dialect.tool_names({"tools": [tool]}) & brought]
    return tuple(tools), overhead_tokens(RECALL_POLICY, tools)

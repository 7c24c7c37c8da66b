"""What the model sees: assembled from the archive, whatever the host's window already holds of ours."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from lossless.formats.synthetic import OPENING_TEXT
from lossless.hosts.openclaw.bridge import Budget
from lossless.hosts.openclaw.live import fits_from, stand_ins, tokens_of, unknown_from
from lossless.hosts.openclaw.reading import is_ignored, messages_of, model_of, number, session_of, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.assembly.run import Assembled
    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.hosts.openclaw.calls import Call
    from lossless.model.conversations import Conversation

#: Least that is left for the archive when the window holds much that it does not know yet.
_LEAST_TOKENS = 1_000


def assemble(bridge: Bridge, call: Call) -> dict[str, Any]:
    """The prompt: assembled messages, then the host's own from `liveFrom` on.

    The plugin sends the end of a long window; when that is not enough to find the place, it is asked for all.
    """
    params, engine, session = call.params, bridge.engine, session_of(call.params)
    window, budget = messages_of(params), bridge.budgets.of(session, number(params, "tokenBudget"))
    all_there_is = (budget.window or engine.settings.default_token_budget) - (budget.beside or 0)
    offset = max(0, (number(params, "messageCount") or len(window)) - len(window))
    conversation = None if is_ignored(engine.settings, session) else engine.archive.conversations.find(session)
    if conversation is None or engine.archive.messages.newest_id(conversation.id) is None:
        return _live(window, offset, all_there_is)
    made = _made(bridge, conversation, params, budget)
    start = unknown_from(window, made.messages)
    if start is None or (start == 0 and offset):
        return _live(window, offset, all_there_is)
    more = window[start:]
    if more:
        beside = min((budget.beside or 0) + tokens_of(more), all_there_is - _LEAST_TOKENS)
        made = _made(bridge, conversation, params, Budget(budget.window, max(beside, budget.beside or 0)))
    bridge.sending(session, made.tokens + tokens_of(more))
    kept = len(made.messages) - stand_ins(made.messages, more)
    shown, twice = made.messages[:kept], made.messages[kept:]
    result: dict[str, Any] = {
        "messages": shown if [m.get("content") for m in shown] != [OPENING_TEXT] else [],
        "liveFrom": offset + start,
        "estimatedTokens": max(0, made.tokens - tokens_of(twice)) + tokens_of(more),
        "contextProjection": {"mode": "thread_bootstrap", "epoch": _epoch(conversation, made)},
    }
    return result if bridge.host.adds_policy else result | {"systemPromptAddition": made.system_prompt}


def _made(bridge: Bridge, conversation: Conversation, params: Mapping[str, Any], budget: Budget) -> Assembled:
    prompt, model = words(params, "prompt"), bridge.models.of(conversation.session, model_of(params))
    return bridge.engine.assemble(
        conversation,
        budget=budget.window,
        beside=budget.beside,
        prompt=prompt,
        format="openclaw",
        model=model.name,
        context_window=model.window,
        allow_trailing_assistant=prompt is not None,
        fold=True,
    )


def _live(window: Sequence[dict[str, Any]], offset: int, budget: int) -> dict[str, Any]:
    """The host's own window, as much of it as fits."""
    if offset:
        return {"needsAll": True}
    start = fits_from(window, budget)
    return {"messages": [], "liveFrom": start, "estimatedTokens": tokens_of(window[start:])}


def _epoch(conversation: Conversation, made: Assembled) -> str:
    """A name for the summaries at the head of the prompt: it changes when they do, not when messages are added."""
    names = [name for name, _ in made.receipt.included if name.startswith("sum_")]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
    return f"summary-prefix-v1:{conversation.id}:{digest}"

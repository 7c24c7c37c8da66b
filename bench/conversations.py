"""The inputs of the speed benchmarks: agent messages, and plain turns of a user and an assistant."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.agent_conversation import agent_conversation, dice, pick
from lossless.model.js_json import stringify_js

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["TURN_BYTES", "agent_conversation", "by_turn", "json_bytes", "text_bytes", "turns"]

ChatMessage: TypeAlias = dict[str, Any]

#: A turn of the speed table: both messages together.
TURN_BYTES = 1800
_USER_BYTES = 480

_ASKS = (
    "Can you look at why {service} {failed} after we {changed} yesterday?",
    "I want {service} to handle {number} {things} a minute without touching {other}.",
    "{person} says the {thing} shows {number} for {service}, but I see {number2} here.",
    "Before we ship this, what happens to {things} that are still in flight in {other}?",
    "Please keep the change small; {person} has to review it before {day}.",
    "Last time we {changed}, {service} needed {number} seconds to come back.",
    "Should that live in {path} or next to the {thing} code in {path2}?",
    "The customer from {city} wrote again: same {thing}, reference {code}.",
)
_ANSWERS = (
    "The short answer is that {service} {failed} because {other} still held an old {thing}.",
    "I read {path} around line {number} and the retry loop never looks at the {thing} it just wrote.",
    "There are two ways to do it: keep the {things} in {other}, or let {service} own them and send a copy.",
    "I would take the second one, since {person}'s load test on {day} showed {number} {things} a second at"
    " {number2} ms.",
    "Nothing else reads {path2}, so the migration only has to cover rows newer than {day}.",
    "If {service} restarts half-way, the {thing} is written again under the same key and nothing is lost.",
    "The log line to look for is {code}: it appears once per {thing} and names the worker.",
    "One caveat: {other} caches the {thing} for {number} seconds, so the dashboard lags behind.",
    "I added a test that kills the worker after {number2} {things} and checks that the count is still right.",
    "With that in place the queue drains in {number} seconds instead of growing for ever.",
    "For the ticket from {city} I would answer that {code} is fixed and the refund is on its way.",
    "Roll it out to one region first, watch the {thing} rate for an hour, then continue on {day}.",
)
_SLOTS: dict[str, tuple[str, ...]] = {
    "service": ("the billing worker", "the gateway", "checkout", "the importer", "the search indexer",
                "the mail sender", "the scheduler", "inventory sync", "the report builder", "auth"),
    "other": ("Redis", "the ledger table", "the object store", "PostgreSQL", "the session cache",
              "the event bus", "the read replica", "the feature-flag service", "the rate limiter"),
    "failed": ("stopped answering", "ran out of connections", "doubled its latency", "dropped a batch",
               "retried for ever", "returned stale prices", "logged a checksum mismatch"),
    "changed": ("moved to the new driver", "raised the pool size", "split the worker", "rotated the keys",
                "turned on compression", "upgraded the base image", "merged the two queues"),
    "thing": ("invoice", "lease", "reservation", "webhook", "snapshot", "cursor", "payout", "token",
              "checkpoint", "attachment"),
    "things": ("orders", "events", "uploads", "refunds", "sessions", "shipments", "rows", "messages"),
    "person": ("Marta", "Jonas", "Priya", "Emeka", "Lucía", "Tobias", "Aiko", "Zeynep", "Håkon"),
    "day": ("Monday", "Tuesday", "Thursday", "the 14th", "the 3rd of March", "Friday evening", "week 32"),
    "city": ("Gdańsk", "Porto", "Utrecht", "Lyon", "Málaga", "Bergen", "Trieste", "Leeds"),
    "path": ("src/billing/retry.py", "internal/lease/holder.go", "app/models/refund.rb",
             "services/search/indexer.ts", "crates/queue/src/drain.rs", "lib/mailer/outbox.ex"),
    "path2": ("config/limits.yaml", "db/migrations/0142_add_lease_owner.sql", "docs/runbooks/drain.md",
              "infra/alerts/queue.tf", "tests/integration/test_restart.py"),
}  # fmt: skip


def turns(count: int, seed: int = 7) -> Iterator[tuple[ChatMessage, ChatMessage]]:
    """`count` pairs of a user's and an assistant's message, TURN_BYTES of text a pair, all different."""
    roll = dice(seed)
    for _ in range(count):
        asks = _prose(roll, _ASKS, _USER_BYTES)
        answers = _prose(roll, _ANSWERS, TURN_BYTES - len(asks.encode()))
        yield {"role": "user", "content": asks}, {"role": "assistant", "content": answers}


def _prose(roll: Callable[[], float], templates: tuple[str, ...], size: int) -> str:
    """Sentences of exactly `size` bytes: the last one is cut short, and ends in full stops."""
    text, next_template = "", int(roll() * len(templates))
    while len(text.encode()) < size:
        text += _sentence(roll, templates[next_template % len(templates)]) + " "
        next_template += 5
    cut = text.encode()[: size - 1].decode(errors="ignore").rstrip()
    return cut + "." * (size - len(cut.encode()))


def _sentence(roll: Callable[[], float], template: str) -> str:
    values = {
        "number": str(2 + int(roll() * 998)),
        "number2": str(2 + int(roll() * 9998)),
        "code": f"{pick(roll, ('ERR', 'PAY', 'QUE', 'NET'))}-{1000 + int(roll() * 9000)}",
    }
    wanted = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    for name in wanted:
        if name in _SLOTS:
            values[name] = pick(roll, _SLOTS[name])
    return template.format_map(values)


def by_turn(messages: Iterable[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """Group messages into turns: each user message with everything up to the next one."""
    turn: list[ChatMessage] = []
    for message in messages:
        if turn and message["role"] == "user":
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def json_bytes(messages: Iterable[ChatMessage]) -> int:
    """The size of the messages as compact JSON, one a line."""
    return sum(len(stringify_js(message).encode()) + 1 for message in messages)


def text_bytes(messages: Iterable[ChatMessage]) -> int:
    """The size of the words alone: strings and the text of text blocks."""
    return sum(len(text_of(message["content"]).encode()) for message in messages)


def text_of(content: Any) -> str:
    """The words of a message's content, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")

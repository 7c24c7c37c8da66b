"""What `answer` returns: one answer from one or several conversations, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from lossless.recall.delegate import Failure, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence


_HINT = "lcm_recall finds evidence without a model; lcm_describe opens what it names."


@dataclass(frozen=True, slots=True)
class Part:
    """What became of one conversation."""

    conversation_id: int
    status: Literal["success", "failed", "skipped"]
    #: Where its reader was to begin.
    seed_ids: tuple[str, ...]
    reply: Reply | None = None
    failure: Failure | None = None
    elapsed_ms: int | None = None
    strategy: str | None = None
    #: Ids that the reader made up.
    dropped: tuple[str, ...] = ()

    @property
    def details(self) -> dict[str, Any]:
        reply, failure = self.reply or Reply(""), self.failure
        found: dict[str, Any] = {
            "conversationId": self.conversation_id,
            "status": self.status,
            "expandedSummaryCount": reply.expanded_summary_count,
            "citedIds": list(reply.cited_ids),
            "totalSourceTokens": reply.total_source_tokens,
            "truncated": reply.truncated or self.status != "success",
            "summaryIds": list(self.seed_ids),
        }
        if failure is not None:
            found |= {"error": failure.text, "errorCode": failure.code, "phase": failure.phase}
        if self.elapsed_ms is not None:
            found["elapsedMs"] = self.elapsed_ms
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the ids that carry it; `error` says why there is none."""

    text: str
    cited_ids: tuple[str, ...] = ()
    conversation_ids: tuple[int, ...] = ()
    expanded_summary_count: int = 0
    total_source_tokens: int = 0
    truncated: bool = False
    parts: tuple[Part, ...] = ()
    #: Whether more than one conversation was asked for.
    several: bool = False
    #: Conversations of the same session that match, too, and were not read.
    others: tuple[int, ...] = ()
    error: str | None = None
    error_code: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return self.text if self.error is None else self.error

    @property
    def strategy(self) -> str | None:
        """How it was found: `loop`, `pack`, `delegate`, or `evidence` when no model was there."""
        return next((part.strategy for part in self.parts if part.status == "success"), None)

    @property
    def dropped_ids(self) -> tuple[str, ...]:
        """Ids that a reader cited and that are not in the archive."""
        return tuple(dict.fromkeys(chain.from_iterable(part.dropped for part in self.parts)))

    @property
    def details(self) -> dict[str, Any]:
        found: dict[str, Any] = {} if self.error is None else {"error": self.error}
        if self.error is None:
            found["answer"] = self.text
        if self.error_code is not None:
            found["errorCode"] = self.error_code
        if self.reason is not None:
            found["reason"] = self.reason
        if self.error is not None and self.parts:
            found["hint"] = _HINT
        found |= {
            "citedIds": list(self.cited_ids),
            "sourceConversationIds": list(self.conversation_ids),
            "expandedSummaryCount": self.expanded_summary_count,
            "totalSourceTokens": self.total_source_tokens,
            "truncated": self.truncated,
        }
        if len(self.conversation_ids) == 1:
            found["sourceConversationId"] = self.conversation_ids[0]
        if self.several or any(part.status == "failed" for part in self.parts):
            found["conversationBreakdown"] = [part.details for part in self.parts]
        optional = {
            "strategy": self.strategy,
            "droppedIds": list(self.dropped_ids),
            "otherConversationIds": list(self.others),
        }
        return found | {name: value for name, value in optional.items() if value}


def no_answer(text: str, code: str | None, *, reason: str | None = None) -> Answer:
    """The answer to a question that was not read for."""
    return Answer("", truncated=True, error=text, error_code=code, reason=reason)


def merged(parts: Sequence[Part], *, others: tuple[int, ...] = (), several: bool = False) -> Answer:
    """One answer from all parts; an error only when every conversation that was read failed."""
    good = [part for part in parts if part.reply is not None]
    if not good:
        failures = [part.failure for part in parts if part.failure is not None]
        text = "; ".join(dict.fromkeys(failure.text for failure in failures)) or "nothing was read"
        code = failures[0].code if failures else None
        return replace(no_answer(text, code), parts=tuple(parts), several=several, others=others)
    replies = [part.reply for part in good if part.reply is not None]
    return Answer(
        replies[0].answer if len(parts) == 1 else _merged_text(parts),
        tuple(dict.fromkeys(chain.from_iterable(reply.cited_ids for reply in replies))),
        tuple(sorted(part.conversation_id for part in good)),
        sum(reply.expanded_summary_count for reply in replies),
        sum(reply.total_source_tokens for reply in replies),
        any(reply.truncated for reply in replies) or len(good) < len(parts),
        tuple(parts),
        several,
        others,
    )


def _merged_text(parts: Sequence[Part]) -> str:
    good = [(part, part.reply) for part in parts if part.reply is not None]
    lines = [f"Merged findings across {len(good)} conversation{'s' if len(good) != 1 else ''}"]
    lines += [f"### Conversation {part.conversation_id}\n{reply.answer}" for part, reply in good]
    missing = [f"{part.conversation_id} ({part.status})" for part in parts if part.reply is None]
    if missing:
        lines.append(f"Partial coverage: not read were {', '.join(missing)}.")
    return "\n\n".join(lines)

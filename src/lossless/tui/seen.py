"""What the model sees: the items of the next prompt with their sizes, and what stays out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.assembly.plan import SHARE_TARGETS

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.assembly.receipt import Receipt
    from lossless.engine import Engine
    from lossless.store.archive import Archive


#: What a receipt calls the pins and the focus brief.
BESIDE = "pins and focus"


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the prompt: a message or a summary, in its form, or what stands beside them."""

    id: str
    form: str
    #: A role, or `depth 1`.
    what: str
    tokens: int
    at: datetime | None
    text: str

    @property
    def is_summary(self) -> bool:
        return self.id.startswith("sum_")


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's share of what there was to give, and what it aims at."""

    name: str
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The next prompt of a conversation."""

    tokens: int
    capacity: int
    fits: bool
    #: Tokens of everything that stands in the context, and those from which on it is folded.
    stored_tokens: int
    threshold: int
    items: tuple[Item, ...]
    lanes: tuple[Lane, ...]
    #: Why items stay out, and how many for that reason.
    left_out: tuple[tuple[str, int], ...]


def seen(engine: Engine, conversation_id: int) -> Seen:
    """What the model would see now; reads only."""
    from lossless.compaction.loop import Situation

    archive = engine.archive
    with archive.reading():
        conversation = archive.conversations.get(conversation_id)
        receipt = engine.assemble(conversation).receipt
        decision = engine.loop.evaluate(Situation(conversation, engine.settings.default_token_budget))
        items = [*_beside(archive, conversation_id, receipt), *_items(archive, receipt)]
        stored = archive.details.context_count(conversation_id)
    known = len(receipt.included) + sum(not id_.startswith("pin_") for id_, _ in receipt.left_out)
    reasons = Counter(reason for _, reason in receipt.left_out)
    if stored > known:
        reasons["older than anything that fits"] += stored - known
    lanes = [Lane(name, share, *SHARE_TARGETS.get(name, (0.0, 0.0))) for name, share in receipt.shares.items()]
    return Seen(
        receipt.tokens,
        receipt.capacity,
        receipt.fits,
        decision.stored_tokens,
        decision.target_tokens,
        tuple(items),
        tuple(lanes),
        tuple(reasons.most_common()),
    )


def _beside(archive: Archive, conversation_id: int, receipt: Receipt) -> list[Item]:
    """Pins and the focus brief, which stand before everything else."""
    tokens = receipt.tokens_by_kind.get(BESIDE, 0)
    if not tokens:
        return []
    brief, pins = archive.beside.active_brief(conversation_id), archive.beside.pins(conversation_id)
    pieces = [f"focus: {brief.prompt}\n\n{brief.content}"] if brief is not None else []
    pieces += [f"pinned: {pin.content or f'msg#{pin.message_id}'}" for pin in pins]
    return [Item(BESIDE, "verbatim", BESIDE, tokens, brief.created_at if brief else None, "\n\n".join(pieces))]


def _items(archive: Archive, receipt: Receipt) -> list[Item]:
    included = receipt.included
    numbers = [int(id_.removeprefix("msg#")) for id_, _ in included if id_.startswith("msg#")]
    names = [id_ for id_, _ in included if not id_.startswith("msg#")]
    found: dict[str, Item] = {}
    for row in archive.listings.messages_by_id(numbers, whole=False):
        id_, text = f"msg#{row.message_id}", row.content or ", ".join(row.tools)
        found[id_] = Item(id_, "", row.role, row.token_count, row.created_at, text)
    for summary in archive.listings.summaries_by_id(names, whole=False):
        id_, what = summary.summary_id, f"depth {summary.depth}"
        found[id_] = Item(id_, "", what, summary.token_count, summary.earliest_at, summary.content)
    items = []
    for (id_, form), tokens in zip(included, receipt.sizes, strict=True):
        item = found.get(id_) or Item(id_, "", "", 0, None, "")
        items.append(Item(id_, form, item.what, tokens, item.at, item.text))
    return items

"""Where a stored conversation stands, as the reference after a compaction tells it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from lossless.assembly.cue import cue_terms, looks_secret
from lossless.hosts.claude_code.cues import EVERYWHERE, places
from lossless.hosts.claude_code.plans import open_work
from lossless.hosts.claude_code.reference import Quoted, Standing
from lossless.model.context import SummaryItem
from lossless.model.times import state_time

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.store.listings import MessageRow

#: How far back requests are looked for, and how many are told.
_LOOKED_AT, _REQUESTS = 60, 6
_SUMMARIES = 12
#: Names are gathered from so many of the newest messages; older ones are looked up when a prompt names them.
_NAMED, _NAMES, _NAMES_A_MESSAGE = 2_000, 2_000, 8
#: What hosts put where words would be: commands, their output, instructions, a summary of their own, fillers.
_NOT_SAID = re.compile(
    r"\s*(?:<[a-z]+(?:[-_][a-z]+)+>|\[Request interrupted|Caveat: The messages below|# AGENTS\.md"
    r"|This session is being continued from a previous"
    r"|(?:Continue from where you left off|No response requested)\.\s*$)"
)


def standing(archive: Archive, conversation_id: int) -> Standing:
    """What was asked and answered last, what is still to be done, what is pinned, and what summaries there are."""
    with archive.reading():
        page = archive.listings.messages(conversation_id, _LOOKED_AT, roles=("user",), whole=True)
        requests = [row for row in page.rows if is_said(row)][:_REQUESTS]
        spoken = archive.listings.messages(conversation_id, _LOOKED_AT, roles=("assistant",), whole=True)
        answer = next((row for row in spoken.rows if is_said(row)), None)
        items = archive.context.items(conversation_id)
        ids = [item.summary_id for item in items if isinstance(item, SummaryItem)][-_SUMMARIES:]
        summaries = archive.summaries.many(ids)
        pins = archive.beside.pins(conversation_id)
        count, _ = archive.listings.message_totals(conversation_id)
        work = open_work(archive, conversation_id)
    return Standing(
        conversation_id,
        count,
        tuple(_quoted(row) for row in requests),
        None if answer is None else _quoted(answer),
        tuple(Quoted(f"pin {pin.id}", _time(pin.at), pin.content) for pin in pins),
        tuple(Quoted(found.id, _time(found.latest_at), found.content) for found in summaries),
        work,
    )


def is_said(row: MessageRow) -> bool:
    """Whether somebody said this: neither a tool's call or answer, nor what a host puts in somebody's place."""
    return not row.tools and bool(row.content.strip()) and _NOT_SAID.match(row.content) is None


def names(archive: Archive, conversation_id: int) -> dict[str, str]:
    """Identifiers and paths that were spoken of, with the messages that open them; the newest are kept."""
    page = archive.listings.messages(conversation_id, _NAMED, roles=("user", "assistant"))
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in page.rows:
        for name in cue_terms(row.content, limit=_NAMES_A_MESSAGE):
            if " " not in name and len(name) >= 4 and not looks_secret(name):
                found[name].append(row.message_id)
    telling = [(name, ids) for name, ids in found.items() if len(ids) <= EVERYWHERE]
    return {name: places(ids) for name, ids in telling[:_NAMES]}


def _quoted(row: MessageRow) -> Quoted:
    return Quoted(f"msg#{row.message_id}", _time(row.created_at), row.content)


def _time(at: datetime | None) -> str:
    return "" if at is None else state_time(at)

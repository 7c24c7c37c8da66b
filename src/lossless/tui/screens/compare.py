"""A transcript and the archive side by side: what both have, and what only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.text import Text

from lossless.ingest.sequences import longest_chain
from lossless.tui import reads
from lossless.tui.reads import DetailView
from lossless.tui.screens.page import Cell, in_background
from lossless.tui.screens.transcript import SessionFileMessage, TranscriptReader, TranscriptWindowScreen
from lossless.tui.text import GREEN, NOTICE, RED, plural, right_cell, role_cell, text_cell

if TYPE_CHECKING:
    from lossless.maintenance.browse import Browse
    from lossless.model.records import MessageRow

#: So many messages that only the archive has are shown in one place; the others are counted.
GAP = 50
#: So many messages before a window are looked up to see where it begins in the archive.
_LEAD = 20
#: Of a text that is said again and again, so many places are looked at.
_PLACES = 1_000
_END = 2**62

#: In both, in both with another text, only in the transcript, only in the archive, in the transcript and never kept.
PairMark: TypeAlias = Literal["=", "~", "+", "-", "·"]


@dataclass(frozen=True, slots=True)
class MessagePair:
    """A message of the transcript and the one of the archive that it is; one of them may be missing."""

    mark: PairMark
    in_file: SessionFileMessage | None = None
    row: MessageRow | None = None
    #: In place of a row: the seqs of messages that are not shown.
    seqs: tuple[int, int] | None = None

    @property
    def is_difference(self) -> bool:
        return self.mark not in ("=", "·")

    @property
    def key(self) -> str:
        if self.in_file is not None:
            return f"line {self.in_file.place}"
        return f"seq {self.row.seq if self.row is not None else self.seqs}"


def count_pairs(pairs: Iterable[MessagePair], mark: PairMark) -> int:
    """How many pairs of a kind there are, those that are not shown too."""
    return sum(1 + (pair.seqs[1] - pair.seqs[0] if pair.seqs else 0) for pair in pairs if pair.mark == mark)


def compare_window(
    browse: Browse, conversation_id: int, scroll: TranscriptReader, first: int, count: int
) -> list[MessagePair]:
    """Lay a window of a transcript over the archive: by the host's ids, else by what was said, in order."""
    lead = scroll.window(max(0, first - _LEAD), min(_LEAD, first))
    in_file = scroll.window(first, count)
    with browse.reading():
        matches = _match_messages(browse, conversation_id, [*lead, *in_file])
        before = max((matches[one.place][0] for one in lead if one.place in matches), default=0)
        if not before and first:  # what only the archive has before this window cannot be told
            before = min((seq for seq, _ in matches.values()), default=_END) - 1
        is_last = first + len(in_file) >= len(scroll)
        return list(_pair_messages(browse, conversation_id, in_file, matches, before, is_last=is_last))


def next_difference(
    browse: Browse, conversation_id: int, scroll: TranscriptReader, first: int, count: int
) -> int | None:
    """Where the first window from a place on begins in which the two differ; None when there is none."""
    for place in range(first, len(scroll), count):
        if any(pair.is_difference for pair in compare_window(browse, conversation_id, scroll, place, count)):
            return place
    return None


def _match_messages(
    browse: Browse, conversation_id: int, in_file: Sequence[SessionFileMessage]
) -> dict[int, tuple[int, bool]]:
    """The seq of each message in the archive, by its place, and whether its text is the same there."""
    known = browse.entries(conversation_id, [one.id for one in in_file if one.id is not None])
    found = {
        one.place: (known[one.id].seq, one.event is not None and known[one.id].fingerprint == one.event.fingerprint)
        for one in in_file
        if one.id is not None and one.id in known
    }
    used = {seq for seq, _ in found.values()}
    pairs: list[tuple[int, int]] = []
    for one in in_file:
        if one.place in found:
            pairs.append((one.place, found[one.place][0]))
        elif one.event is not None:
            seqs = browse.seqs_of_identity(conversation_id, one.event.identity, _PLACES)
            # falling, so that a place is in a chain only once
            pairs += [(one.place, seq) for seq in sorted(seqs, reverse=True) if seq not in used]
    return {place: (seq, True) for place, seq in longest_chain(pairs)} | found


def _pair_messages(
    browse: Browse,
    conversation_id: int,
    in_file: list[SessionFileMessage],
    matches: dict[int, tuple[int, bool]],
    before: int,
    *,
    is_last: bool,
) -> Iterator[MessagePair]:
    used = {seq for seq, _ in matches.values()}
    ids = [id_ for seq in used for id_ in browse.messages_after(conversation_id, seq - 1, 1)]
    rows = {row.seq: row for row in browse.messages_by_id(ids, whole=False)}
    for one in in_file:
        if one.place not in matches:
            yield MessagePair("·" if one.message is None else "+", one)
            continue
        seq, is_same = matches[one.place]
        if seq > before + 1:
            yield from _archive_only(browse, conversation_id, before, seq, used)
        before = max(before, seq)
        yield MessagePair("=" if is_same else "~", one, rows.get(seq))
    if is_last:
        yield from _archive_only(browse, conversation_id, before, _END, used)


def _archive_only(
    browse: Browse, conversation_id: int, after: int, until: int, used: set[int]
) -> Iterator[MessagePair]:
    ids = browse.messages_after(conversation_id, after, GAP + len(used))
    rows = [row for row in browse.messages_by_id(ids, whole=False) if row.seq < until and row.seq not in used]
    yield from (MessagePair("-", row=row) for row in rows[:GAP])
    if len(rows) > GAP:
        newest = browse.messages_before(conversation_id, until, 1)
        last = browse.message_places(newest)[newest[0]][1]
        yield MessagePair("-", seqs=(rows[GAP].seq, last))


#: The style of a mark, what it says of a pair, and what is counted by it.
_MARKS: dict[PairMark, tuple[str, str, str]] = {
    "=": ("dim", "Both have it.", "the same"),
    "·": ("dim", "It is never stored.", "never kept"),
    "~": (NOTICE, "Both have it, with another text.", "with another text"),
    "+": (GREEN, "Only the transcript has it.", "only in the transcript"),
    "-": (RED, "Only the archive has it.", "only in the archive"),
}


class CompareScreen(TranscriptWindowScreen["list[MessagePair]"]):
    """Lines of a file next to the seqs of a conversation; Enter opens the conversation there."""

    COLUMNS = ("", "line", "seq", "role", "time", "text")
    LIST_TITLE = "Transcript and archive"
    conversation_id: int

    def read_window(self, scroll: TranscriptReader, first: int, size: int) -> list[MessagePair]:
        return compare_window(self.access.browse, self.conversation_id, scroll, first, size)

    def show_window(self, found: list[MessagePair], choose: str | None) -> None:
        pairs = {pair.key: pair for pair in found}
        if choose == "differing":
            choose = next((key for key, pair in pairs.items() if pair.is_difference), None)
        self.show_rows(pairs, "This file has no messages.", choose=choose)
        self.where(f"{self.name_of_file} ↔ conversation {self.conversation_id}", self.span())
        counts = [(count_pairs(found, mark), style, words) for mark, (style, _, words) in _MARKS.items()]
        text = Text("   ", end="").join(Text(f"{n:,} {words}", style) for n, style, words in counts if n)
        self.about(text or Text("There is nothing to compare."))

    def cells(self, pair: MessagePair) -> tuple[Cell, ...]:
        style, in_file, row = _MARKS[pair.mark][0], pair.in_file, pair.row
        mark = text_cell(pair.mark, style)
        if pair.seqs is not None:
            first, last = pair.seqs
            text = text_cell(f"… seq {first:,} … {last:,} are only in the archive", RED)
            return mark, "", right_cell(str(first), 5), "", "", text
        line = right_cell("" if in_file is None else str(in_file.line), 5)
        seq = right_cell("" if row is None else str(row.seq), 5)
        role, at, words = "", None, ""
        if in_file is not None:
            role, at, words = in_file.role, in_file.at, in_file.text
        elif row is not None:
            role, at, words = row.role, row.created_at, row.content or ", ".join(row.tools)
        return mark, line, seq, role_cell(role), at, text_cell(words, style)

    def detail(self, pair: MessagePair) -> DetailView:
        times, remark = self.lcm.times, ("compare", _MARKS[pair.mark][1])
        if pair.seqs is not None:
            return DetailView(plural(pair.seqs[1] - pair.seqs[0] + 1, "message"), (), remark[1])
        in_file = None if pair.in_file is None else pair.in_file.detail(times)
        if pair.row is None or (pair.mark == "=" and in_file is not None):
            assert in_file is not None
            return replace(in_file, facts=(remark, *in_file.facts))
        found = reads.message_detail(self.access.browse, pair.row.message_id, times)
        addition = f"\n\n--- in the transcript, {in_file.title} ---\n\n{in_file.text}" if in_file else ""
        return DetailView(found.title, (remark, *found.facts), found.text + addition)

    def selected(self, pair: MessagePair) -> None:
        if pair.row is not None:
            self.go_to(self.conversation_id, pair.row.message_id)
        else:
            self.action_whole()

    @in_background("plan")
    async def action_next_difference(self) -> None:
        """In this window below the cursor, else in one of those that follow."""
        keys = list(self.listed)
        later = [key for key in keys[self.rows.cursor_row + 1 :] if self.listed[key].is_difference]
        browse, id_, scroll, size = self.access.browse, self.conversation_id, self._scroll, self._window_size
        if later:
            self.rows.choose(keys.index(later[0]))
        elif scroll is not None and self._first is not None:
            start = self._first + size
            first = await self.read(lambda: next_difference(browse, id_, scroll, start, size))
            if first is None:
                self.tell("There are no more differences below.")
            else:
                self._turn(first, "differing")

"""Whatever is done to any graph: each summary says the right dates, sizes, counts and writer, and search agrees."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.compaction.run import fold
from lossless.errors import BadInput
from lossless.llm.completion import Completion
from lossless.model.context import NewSummary, SummaryItem
from lossless.model.times import parse_time
from lossless.model.tokens import estimate_tokens
from tests.maintenance.surgery_kit import HERE, THERE, depths, open_engine, prove, roots, rows, talk

if TYPE_CHECKING:
    from lossless.llm.completion import Prompt

_EXAMPLES = int(os.environ.get("LOSSLESS_EXAMPLES") or 12)
_START = datetime(2026, 3, 1, tzinfo=UTC)
VERBS = (
    "append",
    "fold",
    "fold",
    "dissolve",
    "purge",
    "rewrite",
    "subtree",
    "all",
    "undo",
    "transplant",
    "split",
    "merge",
)


class Words:
    """Writes texts that nobody wrote before, each with a word of its own by which search finds it."""

    def __init__(self, seed: int) -> None:
        self.roll, self.count = random.Random(seed), 0
        self.writers: dict[str, str] = {}

    def text(self, writer: str, lengths: tuple[int, ...] = (1, 4, 9)) -> str:
        """A new text by a writer."""
        self.count += 1
        self.writers[f"word{self.count}x"] = writer
        return f"word{self.count}x " + " ".join(self.roll.choices(("ferry", "tide"), k=self.roll.choice(lengths)))

    def __call__(self, _prompt: Prompt) -> Completion:
        return Completion(self.text("model/one"), "model/one")


def say(engine: lossless.Engine, session: lossless.Session, count: int, roll: random.Random) -> None:
    """Messages whose times are in no order, to the millisecond."""
    whens = [_START + timedelta(milliseconds=roll.randrange(10**10)) for _ in range(count)]
    said = talk(count, roll.random(), words=roll.randint(8, 20))
    engine.append(session, [lossless.Incoming(message, None, when) for message, when in zip(said, whens, strict=True)])


def fold_some(engine: lossless.Engine, conversation_id: int, words: Words) -> None:
    """Fold any run of messages, or any run of summaries, whatever their depths."""
    items = engine.archive.context.items(conversation_id)
    runs = [
        items[start:stop]
        for start in range(len(items))
        for stop in range(start + 2, min(len(items), start + 5) + 1)
        if len({type(item) for item in items[start:stop]}) == 1
    ]
    if not runs:
        return
    higher = [run for run in runs if isinstance(run[0], SummaryItem)]
    chosen = words.roll.choice(higher if higher and words.roll.random() < 0.6 else runs)
    text = words.text("model/fold", (1,) if chosen in higher else (1, 4, 9))
    found = [getattr(item, "summary_id", None) for item in chosen]
    below = [depth for id_, depth in depths(engine, conversation_id).items() if id_ in found]
    new = NewSummary(f"sum_{words.count:016x}", max(below, default=-1) + 1, text, estimate_tokens(text), "model/fold")
    if new.tokens < sum(item.tokens for item in chosen):
        fold(engine.archive, conversation_id, chosen, new, engine.clock())


def act(engine: lossless.Engine, verb: str, words: Words) -> None:
    """Do one thing, if it can be done now."""
    roll = words.roll
    session = roll.choice((HERE, THERE))
    found = engine.archive.conversations.find(session)
    assert found is not None
    all_, standing = sorted(depths(engine, found.id)), roots(engine, found.id)
    with suppress(BadInput):
        match verb:
            case "append":
                say(engine, session, roll.randint(1, 6), roll)
            case "fold":
                fold_some(engine, found.id, words)
            case "dissolve" | "purge" if standing:
                engine.surgery.dissolve(roll.choice(standing), purge=verb == "purge")
            case "rewrite" if all_:
                engine.surgery.rewrite(session, summary_id=roll.choice(all_))
            case "subtree" if all_:
                engine.surgery.rewrite(session, subtree=roll.choice(all_))
            case "all":
                engine.surgery.rewrite(session, everything=True, accept=lambda _: roll.random() < 0.7)
            case "undo":
                engine.undo(session)
            case "transplant":
                engine.surgery.transplant(*roll.sample((HERE, THERE), 2))
            case "split":
                with engine.archive.writing():
                    engine.archive.conversations.archive(found.id, "rollover-fallback", engine.clock())
                say(engine, session, 3, roll)
            case "merge":
                engine.surgery.merge(str(session.key), reviewed=True)


def check(engine: lossless.Engine, words: Words) -> None:
    """What every summary says of itself is what follows from the messages and summaries that it was made of."""
    messages = {id_: (parse_time(at), tokens) for id_, at, tokens in rows(engine, _MESSAGES)}
    leaves = _links(engine, "SELECT summary_id, message_id FROM summary_messages")
    sources = _links(engine, "SELECT summary_id, parent_summary_id FROM summary_parents")
    stored = {row[0]: row[1:] for row in rows(engine, _SUMMARIES)}

    def expected(id_: str) -> tuple[datetime, datetime, int, int, int]:
        """Earliest and latest message, their tokens, the summaries below and their tokens."""
        if id_ in leaves:
            times = [messages[message][0] for message in leaves[id_]]
            return min(times), max(times), sum(messages[message][1] for message in leaves[id_]), 0, 0
        below = [(*expected(source), stored[source][1]) for source in sources[id_]]
        return (
            min(row[0] for row in below),
            max(row[1] for row in below),
            sum(row[2] for row in below),
            sum(row[3] + 1 for row in below),
            sum(row[4] + row[5] for row in below),
        )

    for id_, (content, tokens, model, earliest, latest, *counts) in stored.items():
        assert (parse_time(earliest), parse_time(latest), *counts) == expected(id_), id_
        assert tokens == estimate_tokens(content)
        assert model == words.writers[content.split()[0]]
    for word in words.writers:
        having = {id_ for id_, row in stored.items() if row[0].split()[0] == word}
        hits = engine.grep(word, scope="summaries", all_conversations=True, mode="full_text").hits
        assert {hit.id for hit in hits} == having, word


_MESSAGES = "SELECT message_id, created_at, token_count FROM messages"
_SUMMARIES = """
SELECT summary_id, content, token_count, model, earliest_at, latest_at, source_message_token_count, descendant_count,
       descendant_token_count FROM summaries"""


def _links(engine: lossless.Engine, sql: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for summary, source in rows(engine, sql):
        found.setdefault(summary, []).append(source)
    return found


@settings(max_examples=_EXAMPLES)
@given(verbs=st.lists(st.sampled_from(VERBS), min_size=4, max_size=14), seed=st.integers(0, 100_000))
def test_every_summary_tells_the_truth_about_itself(verbs: list[str], seed: int) -> None:
    words = Words(seed)
    with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "lcm.db", words) as engine:
        for session in (HERE, THERE):
            say(engine, session, 9, words.roll)
        for verb in ("fold", "fold", "fold", *verbs):
            act(engine, verb, words)
            check(engine, words)
        prove(engine)

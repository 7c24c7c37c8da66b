"""Whatever is done to a graph, in whatever order: every row proves itself, no word is lost, all of it can be undone."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.llm.completion import Completion
from lossless.maintenance.surgery import dissolve, merge
from lossless.maintenance.surgery.backfill import BackfillOptions, backfill_history
from tests.faults import before_each_statement, statements_of
from tests.maintenance.surgery_kit import (
    BUDGET,
    HERE,
    THERE,
    backup_of,
    context,
    depths,
    open_engine,
    prove,
    roots,
    rows,
    talk,
    told,
    undo_all,
)

if TYPE_CHECKING:
    from lossless.llm.completion import Prompt

_EXAMPLES = int(os.environ.get("LOSSLESS_EXAMPLES") or 8)
VERBS = (
    *("append", "compact", "dissolve", "purge", "rewrite", "rewrite all", "undo", "transplant", "focus", "unfocus"),
    *("recompact", "single root"),
)


class Moody:
    """A model whose answers have any size."""

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)

    def __call__(self, _prompt: Prompt) -> Completion:
        words = self.roll.choice((1, 5, 30, 90, 140, 400))
        return Completion(" ".join(self.roll.choices(("ferry", "berth", "tide", "rope"), k=words)), "moody")


def split(engine: lossless.Engine) -> None:
    """Let HERE go on in another conversation, as a rollover that found no way to go on."""
    found = engine.archive.conversations.find(HERE)
    assert found is not None
    with engine.archive.writing():
        engine.archive.conversations.archive(found.id, "rollover-fallback", engine.clock())
    count = engine.archive.listings.counts().messages
    engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(4, count)])


def act(engine: lossless.Engine, verb: str, roll: random.Random) -> None:
    """Do one thing, if it can be done now."""
    session = roll.choice((HERE, THERE))
    found = engine.archive.conversations.find(session)
    assert found is not None
    summaries = roots(engine, found.id)
    with suppress(BadInput):
        match verb:
            case "append":
                engine.append(session, talk(roll.randint(1, 12), roll.random()))
            case "compact":
                engine.compact(session, budget=BUDGET, force=True)
            case "dissolve" | "purge" if summaries:
                engine.surgery.dissolve(roll.choice(summaries), purge=verb == "purge")
            case "rewrite" if depths(engine, found.id):
                engine.surgery.rewrite(session, subtree=roll.choice(sorted(depths(engine, found.id))))
            case "rewrite all":
                engine.surgery.rewrite(session, everything=True, accept=lambda _: roll.random() < 0.7)
            case "undo":
                engine.undo(session)
            case "recompact" | "single root":
                refold(engine, found, verb, roll)
            case "focus":
                engine.surgery.focus(session, "What about the ferry?")
            case "unfocus":
                engine.surgery.unfocus(session)
            case _:
                move(engine, verb)


def move(engine: lossless.Engine, verb: str) -> None:
    """Let messages stand in another conversation."""
    match verb:
        case "transplant":
            engine.surgery.transplant(HERE, THERE)
        case "split":
            split(engine)
        case "merge":
            engine.surgery.merge(str(HERE.key))


def refold(engine: lossless.Engine, conversation: lossless.Conversation, verb: str, roll: random.Random) -> None:
    """Fold on, or anew, as far as it goes."""
    how = BackfillOptions(True, roll.randint(1, 9), verb == "recompact", roll.random() < 0.5)
    backfill_history(engine.loop, conversation, how, limit=roll.choice((None, 1, 4)))


@settings(max_examples=_EXAMPLES)
@given(verbs=st.lists(st.sampled_from((*VERBS, "split", "merge")), min_size=3, max_size=6), seed=st.integers(0, 10_000))
def test_any_order_of_operations_leaves_a_sound_archive(verbs: list[str], seed: int) -> None:
    roll = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "lcm.db", Moody(seed)) as engine:
        told(engine, 24)
        engine.append(THERE, talk(10, "there"))
        split(engine)
        said = set(rows(engine, "SELECT message_id, role, content FROM messages"))
        for verb in verbs:
            act(engine, verb, roll)
            prove(engine)
        assert said <= set(rows(engine, "SELECT message_id, role, content FROM messages"))


@settings(max_examples=_EXAMPLES)
@given(verbs=st.lists(st.sampled_from(VERBS), min_size=2, max_size=6), seed=st.integers(0, 10_000))
def test_undoing_everything_leads_back_to_the_first_word(verbs: list[str], seed: int) -> None:
    roll = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "lcm.db", Moody(seed)) as engine:
        told(engine, 24)
        engine.append(THERE, talk(10, "there"))
        for verb in verbs:
            act(engine, verb, roll)
        for session in (THERE, HERE):
            with pytest.raises(BadInput, match="no fold and no surgery"):
                undo_all(engine, session)
            prove(engine)
            found = engine.archive.conversations.find(session)
            assert found is not None
            said = rows(engine, "SELECT message_id FROM messages WHERE conversation_id = ? ORDER BY seq", found.id)
            assert context(engine, found.id) == [row[0] for row in said]
        assert rows(engine, "SELECT 1 FROM focus_briefs WHERE status = 'active'") == []


# --- planned, then done ---------------------------------------------------------------------------------------


def test_what_is_planned_is_what_is_done_or_nothing(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine, 24)
        engine.append(THERE, talk(4, "there"))
        first = roots(engine, 1)[0]
        surgery = engine.surgery
        stale = surgery.plan_dissolve(first), surgery.plan_undo(1), surgery.plan_transplant(1, 2)
        surgery.dissolve(first)
        for plan in stale:
            with pytest.raises(lossless.LosslessError):
                surgery.apply(plan)
        prove(engine)


def test_messages_that_arrive_meanwhile_do_not_matter(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine, 24)
        engine.append(THERE, talk(4, "there"))
        split(engine)
        copying, joining = engine.surgery.plan_transplant(1, 2), merge.plan_merge(engine.archive, str(HERE.key))
        for session in (HERE, THERE):
            engine.append(session, talk(3, "meanwhile"))
        done = engine.surgery.apply(copying)
        assert done.tokens_after == engine.archive.context.tokens(2) > copying.tokens_after
        prove(engine)
        done = engine.surgery.apply(joining)
        assert done.tokens_after == engine.archive.context.tokens(3) > joining.tokens_after
        prove(engine)
        work = dissolve.plan_dissolve(engine.archive, roots(engine, 3)[-1])
        engine.append(HERE, talk(3, "later still"))
        done = engine.surgery.apply(work)
        assert done.tokens_after == engine.archive.context.tokens(3) > work.tokens_after
        prove(engine)


def test_a_backup_is_made_before_the_first_write(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine, 24)
        work = dissolve.plan_dissolve(engine.archive, roots(engine, 1)[0])
        seen: list[str] = []
        make = backup_of(engine)
        assert make is not None

        def backup(label: str) -> Path:
            seen.append(label)
            return make(label)

        def watch(_count: int, statement: str) -> None:
            assert seen or not statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))

        with before_each_statement(engine.archive.database, watch):
            done = engine.surgery.apply(work, backup)
        assert seen == ["dissolve"]
        assert done.backup is not None
        with lossless.open(done.backup, background=False) as copy:
            assert roots(copy, 1)[0] == work.summary.id
            prove(copy)


def test_planning_reads_only(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine, 24)
        archive = engine.archive
        plans = (
            lambda: dissolve.plan_dissolve(archive, roots(engine, 1)[0]),
            lambda: engine.surgery.plan_undo(1),
            lambda: engine.surgery.plan_rewrite(1, everything=True),
        )
        for plan in plans:
            words = {statement.split()[0].upper() for statement in statements_of(archive.database, plan)}
            assert words <= {"SELECT", "WITH", "BEGIN", "COMMIT", "PRAGMA"}

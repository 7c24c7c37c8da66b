"""Between two folds the beginning of a prompt is the same, byte for byte, so that a provider's cache keeps hitting."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lossless.model.messages import ModelIdentity
from lossless.testing import Scripted
from tests.compaction.loop_kit import SESSION, conversation_id, one, open_engine, rows, size, talk
from tests.compaction.providers import FORMATS, complaints

if TYPE_CHECKING:
    from lossless import Engine

Raw = dict[str, Any]


@dataclass
class Watch:
    """Looks at the prompts of a conversation one after the other, and counts where the beginning changed."""

    budget: int
    format: str = "openai-chat"
    before: list[str] = field(default_factory=list)
    changes: int = 0

    def look(self, engine: Engine, **more: Any) -> int:
        """The number of leading messages that are as they were."""
        messages = engine.assemble(SESSION, budget=self.budget, format=self.format, **more).messages
        assert complaints(messages, self.format) == []
        assert size(messages) <= self.budget
        now = [json.dumps(message, ensure_ascii=False) for message in messages]
        same = next((n for n, (a, b) in enumerate(zip(now, self.before, strict=False)) if a != b), len(self.before))
        same = min(same, len(now))
        self.changes += same < len(self.before)
        self.before = now
        return same


def tool_turn(turn: int, roll: random.Random, *, ids: str = "call") -> list[Raw]:
    """A question, some calls of which one may never be answered, their results, and an answer."""
    calls = [f"{ids}_{turn}_{n}" for n in range(roll.randint(0, 3))]
    lost = {roll.choice(calls)} if calls and roll.random() < 0.2 else set()
    made: list[Raw] = [{"role": "user", "content": f"turn {turn}: {'why? ' * roll.randint(1, 30)}"}]
    if calls:
        functions = [{"name": "read", "arguments": json.dumps({"path": f"src/{id}.py"})} for id in calls]
        asked = [
            {"id": id, "type": "function", "function": function} for id, function in zip(calls, functions, strict=True)
        ]
        made.append({"role": "assistant", "content": None, "tool_calls": asked})
        made += [
            {"role": "tool", "tool_call_id": id, "content": f"{id}\n" + '"x"\n' * roll.randint(1, 150)}
            for id in calls
            if id not in lost
        ]
    return [*made, {"role": "assistant", "content": f"answer {turn}: {'so. ' * roll.randint(1, 40)}"}]


@pytest.mark.parametrize("format", FORMATS)
def test_a_growing_conversation_only_ever_grows(tmp_path: Path, format: str) -> None:
    """Calls without results, results that leave the tail, ids that come again: none of it is seen in what was sent."""
    roll, watch = random.Random(format), Watch(200_000, format)
    with open_engine(tmp_path / "lcm.db", fresh_tail_count=6) as engine:
        for turn in range(15):
            *steps, answer = tool_turn(turn, roll, ids="call" if turn % 3 else "again")
            for step in steps[:1]:
                engine.append(SESSION, [step])
                watch.look(engine)
            engine.append(SESSION, steps[1:])
            watch.look(engine)
            engine.append(SESSION, [answer])
        assert watch.changes == 0
        assert len(watch.before) > 30


@given(
    seed=st.integers(0, 10_000),
    budget=st.sampled_from((1_500, 4_000, 12_000)),
    tail=st.sampled_from((4, 16, 64)),
    format=st.sampled_from(FORMATS),
    root=st.booleans(),
)
@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_over_budget_the_beginning_changes_at_most_once_for_each_tenth(
    seed: int, budget: int, tail: int, format: str, root: bool
) -> None:
    """While a debt waits, for 30 turns; what was added is counted as it is sent.

    Without evidence, which makes room for the newest question where a budget is small.
    """
    roll, watch = random.Random(seed), Watch(budget, format)
    given: dict[str, Any] = {"fresh_tail_count": tail, "evidence": False}
    with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "lcm.db", **given) as engine:
        if root:
            engine.append(SESSION, talk(40))
            engine.compact(SESSION, budget=budget, force=True)
        start = _whole(engine, format) if root else 0
        for turn in range(30):
            new = tool_turn(turn, roll)
            engine.append(SESSION, new[:1])
            watch.look(engine)
            engine.append(SESSION, new[1:])
        # one for where it began, and one for a step that ended between two looks
        assert watch.changes <= (_whole(engine, format) - start) / (0.1 * budget) + 2


def _whole(engine: Engine, format: str) -> int:
    """What everything would take, if there were room."""
    return size(engine.assemble(SESSION, budget=10**7, format=format, allow_trailing_assistant=True).messages)


def test_many_turns_over_budget(tmp_path: Path) -> None:
    budget, watch, added = 6_000, Watch(6_000), 0
    with open_engine(tmp_path / "lcm.db", fresh_tail_count=16) as engine:
        engine.append(SESSION, talk(100))
        watch.look(engine)
        for turn in range(60):
            new = talk(2, first=100 + 2 * turn, words=random.Random(turn).randint(5, 300))
            engine.append(SESSION, new)
            watch.look(engine)
            added += size(new)
    assert added > 2 * budget
    assert watch.changes <= added / (0.1 * budget) + 1


def test_one_giant_result_does_not_unsettle_the_beginning(tmp_path: Path) -> None:
    budget, roll = 8_000, random.Random(5)
    watch, added = Watch(budget), 0
    with open_engine(tmp_path / "lcm.db", fresh_tail_count=4) as engine:
        for turn in range(30):
            words = 1_200 if turn % 9 == 4 else roll.randint(5, 60)
            new = talk(2, first=2 * turn, words=words)
            engine.append(SESSION, new)
            added += size(new)
            watch.look(engine)
    assert watch.changes <= added / (0.1 * budget) + 1


def test_a_fold_changes_the_beginning_once(tmp_path: Path) -> None:
    watch = Watch(6_000)
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        folded = 0
        for turn in range(40):
            engine.append(SESSION, talk(1, first=2 * turn))
            changed = watch.changes
            watch.look(engine)
            folds = one(engine, "SELECT count(*) FROM context_log")
            assert watch.changes - changed == (folds > folded)
            folded = folds
            engine.after_turn(SESSION, new_messages=talk(1, first=2 * turn + 1), budget=4_000)
            engine.admin.run_pending()
        assert watch.changes > 1


def test_learning_a_factor_is_hardly_felt(tmp_path: Path) -> None:
    """It counts in steps of 5 %, so that noise in what a provider reports moves nothing."""
    model, watch, roll = ModelIdentity("acme", "chat", "m"), Watch(200_000), random.Random(1)
    with open_engine(tmp_path / "lcm.db") as engine:
        for turn in range(60):
            engine.append(SESSION, talk(1, first=2 * turn))
            watch.look(engine, model=model)
            tokens = int(1.2 * size([json.loads(m) for m in watch.before]) * roll.uniform(0.98, 1.02))
            usage = {"input_tokens": tokens}
            engine.after_turn(SESSION, new_messages=talk(1, first=2 * turn + 1), usage=usage, model="acme/m")
        assert watch.changes == 0


def test_only_the_newest_of_a_conversation_is_read(tmp_path: Path) -> None:
    """And the border of what is read is not seen, either: the prompt is that of one who read everything."""
    with open_engine(tmp_path / "lcm.db", fresh_tail_count=8, evidence=False) as engine:
        engine.append(SESSION, talk(1_401, words=30))
        id_ = conversation_id(engine)
        newest = engine.archive.context.newest_items(id_, 3_000)
        assert 0 < len(newest.items) < 100
        assert newest.unread == 1_401 - len(newest.items)
        assert newest.unread_tokens + sum(i.tokens for i in newest.items) == engine.archive.context_tokens(id_)
        made = engine.assemble(SESSION, budget=2_000).messages
        stored = [content for (content,) in rows(engine, "SELECT content FROM messages ORDER BY seq")]
        out = 1_401 - len(made) + 1
        assert made[0]["content"].startswith(f"[LCM left out here to make room: {out:,} messages before msg#{out + 1}.")
        assert [m["content"] for m in made[1:]] == stored[-len(made) + 1 :]
        assert 0.8 * 2_000 < size(made) <= 2_000

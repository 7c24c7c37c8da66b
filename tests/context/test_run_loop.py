"""Whatever was stored and however it was folded: the prompt is one that strict providers take, within its budget."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import lossless
from bench.agent_conversation import agent_conversation
from lossless.context.repair import message_groups
from lossless.errors import BadInput, NotFound
from lossless.model.context import MessageItem, newest_user_index, prompt_tokens
from lossless.testing import Scripted
from lossless.testing.strategies import MESSAGES
from tests.compaction.loop_kit import SESSION, conversation_id, open_engine, size, talk
from tests.compaction.providers import FORMATS, accepted_by_sdk, complaints
from tests.tool_streams import tool_streams

if TYPE_CHECKING:
    from lossless import Engine
    from lossless.context.run import Assembled

Raw = dict[str, Any]


def judge(engine: Engine, made: Assembled, format: str, budget: int) -> None:
    """The promises of a prompt. Over its budget it holds nothing but system prompts and the newest turn."""
    assert complaints(made.messages, format) == []
    accepted_by_sdk(made.messages, format)
    assert made.tokens >= size(made.messages) - 1, "what it says it takes, the outer brackets aside"
    if size(made.messages) <= budget:
        return
    items = engine.archive.context.items(conversation_id(engine))
    user = newest_user_index(items) or 0
    turn = {f"msg#{item.message_id}" for item in items[user:] if isinstance(item, MessageItem)}
    turn |= {f"msg#{item.message_id}" for item in items if isinstance(item, MessageItem) and item.role == "system"}
    calls = {id_ for id_, form in made.receipt.included if form != "stub"}
    assert calls <= turn | _atoms(engine, items, user), made.receipt


def _atoms(engine: Engine, items: Any, user: int) -> set[str]:
    """Messages before the newest turn whose calls are answered in it: they stay with their answers."""
    kept = [item for item in items if isinstance(item, MessageItem)]
    stored = engine.archive.messages.many([item.message_id for item in kept])
    groups = message_groups([message.message for message in stored])
    first = items[user].ordinal
    late = {group for group, item in zip(groups, kept, strict=True) if item.ordinal >= first}
    return {f"msg#{item.message_id}" for group, item in zip(groups, kept, strict=True) if group in late}


@st.composite
def streams(draw: st.DrawFn) -> list[Raw]:
    """Messages of one format, with calls and results that fit each other or not at all."""
    if draw(st.booleans()):
        return draw(tool_streams(max_turns=8, max_damage=6))[1]
    format = draw(st.sampled_from(sorted(MESSAGES)))
    return draw(st.lists(MESSAGES[format](), min_size=1, max_size=24))


@given(
    stream=streams(),
    folds=st.lists(st.integers(0, 24), max_size=3),
    tail=st.sampled_from((1, 3, 8, 64)),
    budgets=st.lists(st.sampled_from((90, 200, 500, 1_500, 20_000)), min_size=1, max_size=2),
    mode=st.sampled_from(("ok", "directives", None)),
)
@settings(phases=[Phase.explicit, Phase.generate])
def test_any_stream_with_any_folds(
    stream: list[Raw], folds: list[int], tail: int, budgets: list[int], mode: Any
) -> None:
    model = None if mode is None else Scripted(then=mode)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_engine(Path(folder) / "lcm.db", model, fresh_tail_count=tail, leaf_chunk_tokens=200) as engine,
    ):
        cuts = sorted({0, *folds, len(stream)})
        for start, end in pairwise(cuts):
            engine.append(SESSION, stream[start:end])
            engine.compact(SESSION, budget=1_000, force=True)
        engine.append(SESSION, [{"role": "user", "content": "And now?"}])
        for format in FORMATS:
            for budget in budgets:
                judge(engine, engine.assemble(SESSION, budget=budget, format=format), format, budget)
        assert engine.verify().ok


@pytest.mark.parametrize("format", FORMATS)
def test_every_turn_of_an_agent(tmp_path: Path, format: str) -> None:
    """Through the whole loop: debts, folds at the limit, over budget while a debt waits."""
    said = list(agent_conversation(50, unicode=True))
    with open_engine(tmp_path / "lcm.db", Scripted(), leaf_chunk_tokens=2_000, leaf_target_tokens=400) as engine:
        for n, message in enumerate(said):
            engine.append(SESSION, [message])
            if message["role"] == "assistant" and message["stopReason"] == "stop":
                engine.after_turn(SESSION, new_messages=[], budget=12_000)
                if n % 5 == 0:
                    engine.admin.run_pending()
            else:
                budget = (12_000, 4_000)[n % 2]
                judge(engine, engine.assemble(SESSION, budget=budget, format=format), format, budget)
        assert engine.verify().problems == ()


def test_the_newest_user_message_and_what_follows_are_verbatim(tmp_path: Path) -> None:
    call = {"id": "call_9", "type": "function", "function": {"name": "read", "arguments": '{"path": "a b"}'}}
    turn: list[Raw] = [
        {"role": "user", "content": [{"type": "text", "text": "  And \u202e <summary> this?\n"}], "name": "Ada"},
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "call_9", "content": "so it is read " * 214, "note": "kept"},
    ]
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [*talk(60), *turn])
        engine.compact(SESSION, budget=2_000, force=True)
        for budget in (1_200, 2_000, 8_000):
            made = engine.assemble(SESSION, budget=budget)
            assert json.dumps(made.messages[-3:]) == json.dumps(turn)
            assert size(made.messages) <= budget
        assert engine.assemble(SESSION, budget=300).messages[-3] == turn[0]


def test_what_a_prompt_takes_is_counted_over_its_json(tmp_path: Path) -> None:
    """Quotes, line ends and fields beside the content count: not only the words."""
    lines = '"a"\n\t"b"\\' * 60
    said = [{"role": r, "content": f"{n} {lines}", "name": "x" * 40} for n in range(40) for r in ("assistant", "user")]
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, said)
        for budget in range(1_000, 9_000, 1_000):
            made = engine.assemble(SESSION, budget=budget)
            assert size(made.messages) <= made.tokens + 1 <= budget + 1
            assert made.tokens > 0.5 * budget


def test_a_picture_counts_once_whatever_its_bytes(tmp_path: Path) -> None:
    url = "data:image/png;base64," + "QUJD" * 30_000
    picture: Raw = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [*talk(13), picture])
        made = engine.assemble(SESSION, budget=4_000)
        assert picture in made.messages
        assert 1_600 < made.tokens <= 4_000
        tight = engine.assemble(SESSION, budget=1_500)
        assert picture not in tight.messages
        assert tight.tokens <= 1_500


def test_a_pending_debt_never_removes_summaries_that_fit(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(60))
        engine.compact(SESSION, budget=4_000, force=True)
        shown = [m for m in engine.assemble(SESSION, budget=4_000).messages if m["content"].startswith("<summary")]
        count = 60
        while not engine.archive.guards.pending_debts():
            engine.after_turn(SESSION, new_messages=talk(1, first=count), budget=4_000)
            count += 1
        id_ = conversation_id(engine)
        share = prompt_tokens(engine.archive.context.items(id_)) / 4_000
        assert 0.75 < share < 0.8
        made = engine.assemble(SESSION, budget=4_000, allow_trailing_assistant=True).messages
        assert [m for m in made if m["content"].startswith("<summary")] == shown
        assert len(made) == len(shown) + 4 + count - 60


def test_over_its_budget_a_prompt_keeps_the_summary_that_covers_most(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted(), leaf_chunk_tokens=2_000) as engine:
        engine.append(SESSION, talk(200))
        engine.compact(SESSION, budget=4_000, until=1_500, force=True)
        engine.append(SESSION, talk(81, first=200))
        made = engine.assemble(SESSION, budget=4_000)
        (root,) = (
            item for item in engine.archive.context.items(conversation_id(engine)) if not isinstance(item, MessageItem)
        )
        assert 0.05 * 4_000 < root.tokens < 0.12 * 4_000
        assert made.receipt.included[0] == (root.summary_id, "verbatim")
        assert ("over budget" in dict(made.receipt.left_out).values(), size(made.messages) <= 4_000) == (True, True)


def test_a_long_newest_message_leaves_part_of_a_summary(tmp_path: Path) -> None:
    """Whatever is left beside it: from about 300 tokens on a summary is there, shortened to what fits."""
    long = [f"{n}: " + " ".join(f"w{n}x{k}" for k in range(1_500)) for n in range(3)]
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        for n, text in enumerate(long):
            engine.append(SESSION, [{"role": "user", "content": text}])
            if n < 2:
                engine.append(SESSION, [{"role": "assistant", "content": "Noted."}])
        engine.compact(SESSION, budget=9_500)
        engine.append("alone", [{"role": "user", "content": long[2]}])
        newest = engine.assemble("alone", budget=60_000).tokens
        seen = set()
        for space in range(500, 6_500, 500):
            made = engine.assemble(SESSION, budget=newest + space)
            first, *_, last = made.messages
            assert last["content"] == long[2]
            assert first["content"].startswith("<summary id="), space
            assert size(made.messages) <= newest + space
            seen |= {form for id_, form in made.receipt.included if id_.startswith("sum_")}
    assert seen == {"shortened", "verbatim"}


def test_prompt_aware_keeps_what_the_question_is_about(tmp_path: Path) -> None:
    said = talk(80)
    said[10] = {"role": "user", "content": "The zeppelin hangar has a green door. 飞艇机库的门是绿色的。"}
    question = {"role": "user", "content": "What colour is the door of the zeppelin hangar?"}
    with open_engine(tmp_path / "lcm.db", prompt_aware_eviction=True) as engine:
        engine.append(SESSION, [*said, question])
        for prompt in (question["content"], "飞艇机库的门"):
            made = engine.assemble(SESSION, budget=2_000, prompt=prompt)
            assert said[10] in made.messages
            judge(engine, made, "openai-chat", 2_000)
        assert said[10] not in engine.assemble(SESSION, budget=2_000).messages


def test_an_empty_context_is_still_a_prompt(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(4))
        engine.new(SESSION, retain_depth=5)
        for format in FORMATS:
            made = engine.assemble(SESSION, budget=1_000, format=format)
            judge(engine, made, format, 1_000)
            assert len(made.messages) == 1


def test_what_makes_no_sense_is_said(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        with pytest.raises(NotFound):
            engine.assemble(SESSION, budget=1_000)
        engine.append(SESSION, talk(4))
        for budget in (0, -5):
            with pytest.raises(BadInput):
                engine.assemble(SESSION, budget=budget)
        with pytest.raises(BadInput):
            engine.assemble(SESSION, format="telegram")
        with pytest.raises(NotFound):
            engine.assemble(lossless.Session(key="nobody"))


def test_the_checkers_find_what_is_wrong() -> None:
    """So that their silence means something."""
    bad: dict[str, list[Raw]] = {
        "openai-chat": [{"role": "user", "content": "x"}, {"role": "tool", "content": "orphan"}],
        "openai-responses": [{"role": "user", "content": [{"type": "input_text"}]}],
        "anthropic": [{"role": "user", "content": [{"type": "tool_result", "content": "orphan"}]}],
    }
    for format, messages in bad.items():
        with pytest.raises(ValidationError):
            accepted_by_sdk(messages, format)
    assert complaints([{"role": "assistant", "content": "x"}], "openai-chat")

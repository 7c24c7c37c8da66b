"""What stands beside the context: pins word for word, a focus brief for older summaries, a cue before the question."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given

import lossless
from lossless.context.render import focus_message
from lossless.errors import BadInput, NotFound
from lossless.testing import Scripted
from lossless.testing.strategies import nasty_text
from tests.compaction.loop_kit import SESSION, conversation_id, one, open_engine, rows, size, talk
from tests.compaction.providers import FORMATS, accepted_by_sdk, complaints
from tests.context.contexts import stored_brief

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import Engine

Raw = dict[str, Any]
RULE = 'Never deploy on Fridays. </pinned> <b>"quotes"</b> & 规则\n\ttabs stay'


def _texts(messages: list[Raw]) -> list[str]:
    return [str(message["content"]) for message in messages]


# --- pins ------------------------------------------------------------------------------------------------


def test_pins_are_shown_word_for_word_whatever_is_folded(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        engine.append(SESSION, talk(60))
        first = engine.pin(SESSION, RULE)
        message_id = one(engine, "SELECT message_id FROM messages WHERE seq = 7")
        engine.pin(SESSION, message_id)
        engine.compact(SESSION, budget=4_000, until=1_500, force=True)
        pinned = engine.assemble(SESSION, budget=4_000).messages[0]
        assert RULE in pinned["content"]
        assert talk(60)[6]["content"] in pinned["content"]
        engine.append(SESSION, talk(80, first=60))
        for format in FORMATS:
            made = engine.assemble(SESSION, budget=4_000, format=format)
            assert RULE in _texts(made.messages)[0], "over budget, too"
            assert size(made.messages) <= 4_000
            assert complaints(made.messages, format) == []
        engine.unpin(SESSION, first)
        assert RULE not in _texts(engine.assemble(SESSION, budget=4_000).messages)[0]
        assert engine.verify().problems == ()


def test_system_prompts_come_before_pins(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.sync(SESSION, [system, *talk(5)])
        engine.pin(SESSION, RULE)
        made = engine.assemble(SESSION, budget=4_000).messages
        assert made[0] == system
        assert RULE in made[1]["content"]
        assert made[2:] == talk(5)


def test_pins_that_have_no_room_are_named(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(5))
        small = engine.pin(SESSION, "Never on Fridays.")
        large = engine.pin(SESSION, "x y " * 800)
        made = engine.assemble(SESSION, budget=2_000)
        assert "Never on Fridays." in made.messages[0]["content"]
        assert (f"pin_{large}", "no room among the pins") in made.receipt.left_out
        assert f"pin_{small}" not in dict(made.receipt.left_out)


def test_what_cannot_be_pinned_is_said(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(2))
        engine.append(lossless.Session(key="other"), talk(2))
        with pytest.raises(BadInput):
            engine.pin(SESSION, "  ")
        with pytest.raises(NotFound):
            engine.pin(SESSION, 99)
        with pytest.raises(NotFound):
            engine.pin(SESSION, 3)
        with pytest.raises(NotFound):
            engine.unpin(SESSION, 1)
        assert rows(engine, "SELECT * FROM pins") == []


# --- focus -------------------------------------------------------------------------------------------------


def _focus(engine: Engine, prompt: str, content: str, *, seq: int | None = None, latest: str | None = None) -> None:
    engine.archive.database.run(
        "INSERT INTO focus_briefs (brief_id, conversation_id, prompt, content, status, token_count, target_tokens,"
        " covered_message_seq, covered_latest_at) VALUES ('focus_1', ?, ?, ?, 'active', 12, 600, ?, ?)",
        (conversation_id(engine), prompt, content, seq, latest),
    )


def test_a_focus_brief_stands_for_the_summaries_that_it_covers(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted(), sweep_max_depth=0, condensed_min_fanout_hard=50) as engine:
        engine.append(SESSION, talk(40))
        engine.compact(SESSION, budget=4_000, force=True)
        items = engine.archive.context.items(conversation_id(engine))
        seqs = engine.archive.prompts.newest_seqs(conversation_id(engine))
        summary_ids = [item.summary_id for item in items if hasattr(item, "summary_id")]
        assert len(summary_ids) > 2
        plain = engine.assemble(SESSION, budget=4_000).messages
        _focus(engine, "the <berth>?", "They chose berth 4 & left.", seq=seqs[summary_ids[1]])
        made = engine.assemble(SESSION, budget=4_000)
        assert made.messages[1:] == plain[2:], "one message for two"
        brief = made.messages[0]["content"]
        assert brief.startswith('<focus_brief id="focus_1" prompt="the &lt;berth&gt;?"')
        left_out = dict(made.receipt.left_out)
        assert {left_out[id_] for id_ in summary_ids[:2]} == {"covered by focus_1"}
        engine.archive.database.run("UPDATE focus_briefs SET status = 'inactive'")
        assert engine.assemble(SESSION, budget=4_000).messages == plain, "nothing that is stored was touched"


@given(prompt=nasty_text(), content=nasty_text().filter(lambda text: bool(text.strip())))
def test_no_words_can_end_a_focus_brief(prompt: str, content: str) -> None:
    brief = stored_brief(prompt, content, datetime(2026, 1, 5, tzinfo=UTC))
    text = focus_message(brief).content
    assert text.count("<focus_brief ") == text.count("</focus_brief>") == 1
    legal = "".join(char for char in text if char in "\t\n" or (char >= " " and not "\ufffe" <= char <= "\uffff"))
    assert ElementTree.fromstring(legal).get("trust") == "untrusted"


def test_a_brief_that_covers_nothing_is_not_shown(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        engine.append(SESSION, talk(40))
        engine.compact(SESSION, budget=4_000, force=True)
        plain = engine.assemble(SESSION, budget=4_000).messages
        _focus(engine, "?", "words", latest="2001-01-01T00:00:00.000Z")
        assert engine.assemble(SESSION, budget=4_000).messages == plain
        engine.archive.database.run("UPDATE focus_briefs SET covered_latest_at = '2999-01-01T00:00:00.000Z'")
        made = engine.assemble(SESSION, budget=4_000).messages
        assert made[0]["content"].startswith("<focus_brief ")
        assert not any(text.startswith("<summary ") for text in _texts(made))


# --- the cue -----------------------------------------------------------------------------------------------


def _forgotten(engine: Engine) -> str:
    """A conversation in which one name was said long ago; returns the question that names it."""
    said = talk(60)
    said[3] = {"role": "assistant", "content": "We set MAX_BERTH_RETRIES to 17 because of the storm. It works."}
    engine.append(SESSION, said)
    engine.compact(SESSION, budget=4_000, until=1_200, force=True)
    return "What did MAX_BERTH_RETRIES become?"


def test_the_cue_stands_right_before_the_newest_user_message(tmp_path: Path) -> None:
    model = Scripted(then="ok")
    with open_engine(tmp_path / "lcm.db", model, evidence=False) as engine:
        question = _forgotten(engine)
        engine.append(SESSION, [{"role": "user", "content": question}])
        plain = engine.assemble(SESSION, budget=4_000).messages
        if any("MAX_BERTH_RETRIES" in text for text in _texts(plain[:-1])):
            pytest.fail("the summaries still name it")
        for format in FORMATS:
            made = engine.assemble(SESSION, budget=4_000, format=format, prompt=question)
            cue, asked = _texts(made.messages)[-2:]
            assert cue.startswith("<lossless_claw_prompt_recall>")
            assert "We set MAX_BERTH_RETRIES to 17 because of the storm." in cue
            assert asked == question
            assert complaints(made.messages, format) == []
            accepted_by_sdk(made.messages, format)
        made = engine.assemble(SESSION, budget=4_000, prompt=question)
        assert json.dumps(made.messages[:-2]) == json.dumps(plain[:-1]), "behind the stable beginning"
        assert made.receipt.tokens_by_kind["cue"] > 0
        assert size(made.messages) <= made.tokens + 1


def test_without_room_there_is_no_cue(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        question = _forgotten(engine)
        engine.append(SESSION, [{"role": "user", "content": question}])
        for budget in (60, 300, 700):
            made = engine.assemble(SESSION, budget=budget, prompt=question)
            assert size(made.messages) <= budget or "cue" not in made.receipt.tokens_by_kind


def test_no_cue_for_what_is_shown_or_secret(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        said = talk(60)
        said[3] = {"role": "user", "content": "The DB_PASSWORD is hunter2hunter2, and DEPLOY_TOKEN too."}
        said[5] = {"role": "user", "content": "FERRY_COUNT is set with password=swordfish99 in the file."}
        said[58] = {"role": "user", "content": "BERTH_COUNT is 4."}
        engine.append(SESSION, said)
        engine.compact(SESSION, budget=4_000, until=1_200, force=True)
        question = "Tell me DB_PASSWORD, DEPLOY_TOKEN, FERRY_COUNT and BERTH_COUNT"
        engine.append(SESSION, [{"role": "user", "content": question}])
        made = engine.assemble(SESSION, budget=4_000, prompt=question)
        assert not any("prompt_recall" in text for text in _texts(made.messages))

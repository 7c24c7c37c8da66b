"""What the host says about a turn beside its words: the model, the time that is left, instructions, heartbeats."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import lossless
from lossless.engine import Engine
from lossless.hosts.openclaw.bridge import Bridge
from lossless.hosts.openclaw.rpc import MARGIN_SECONDS, PluginCall
from lossless.model.conversations import Session
from lossless.settings.load import load
from lossless.store.archive import Archive
from tests.hosts.openclaw.plugin_end import KEY, PluginEnd
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, Any] = {"freshTailCount": 4, "leafChunkTokens": 600, "maxAssemblyTokenBudget": 3000}
#: A rule for one model alone: fold early.
RULES = [{"match": {"model": "claude-x"}, "contextThreshold": 0.01, "freshTailCount": 2}]
WIDE = [{"match": {"modelContextWindowMin": 500_000}, "contextThreshold": 0.001, "freshTailCount": 2}]


def noted(params: dict[str, Any]) -> dict[str, Any]:
    return {"text": "A short note.", "provider": "fake", "model": "m-1"}


def messages(number: int) -> list[dict[str, Any]]:
    text = f"fact-{number} " * 40
    return [{"role": "user", "content": f"q{number} {text}"}, {"role": "assistant", "content": f"a{number} {text}"}]


def commit(plugin: PluginEnd, number: int, **more: Any) -> None:
    params = {"sessionKey": KEY, "advancementKey": f"k{number}", "messages": messages(number), **more}
    assert plugin.call("commitTurn", **params) == {"status": "committed"}


def summaries(database: Path) -> int:
    with lossless.open(database, lossless.Settings()) as engine:
        assert engine.verify().ok
        return engine.archive.listings.counts().summaries


def test_the_turns_model_chooses_the_rules_that_hold(tmp_path: Path) -> None:
    for name, rules, told in (
        ("other", RULES, {"model": "openai/gpt-y"}),
        ("named", RULES, {"model": "anthropic/claude-x"}),
        ("narrow", WIDE, {"contextWindow": 200_000}),
        ("wide", WIDE, {"contextWindow": 1_000_000}),
    ):
        config = {"contextThresholdOverrides": rules, "leafChunkTokens": 600}
        with PluginEnd(tmp_path / f"{name}.db", answers={"llm.complete": noted}, **config) as plugin:
            for number in range(8):
                commit(plugin, number, tokenBudget=100_000, **told)
            if name in ("named", "wide"):
                wait_for(lambda name=name: summaries(tmp_path / f"{name}.db") > 0)  # type: ignore[misc]
        assert (summaries(tmp_path / f"{name}.db") > 0) == (name in ("named", "wide")), name


def test_a_debt_is_paid_by_the_rule_that_made_it(tmp_path: Path) -> None:
    settings = load({"contextThresholdOverrides": RULES, "leafChunkTokens": 600}, env={}, home=tmp_path).settings
    with Engine(Archive.open(":memory:"), settings, background=False) as engine:
        session = Session(key=KEY)
        for number in range(8):
            engine.after_turn(session, new_messages=messages(number), budget=100_000, model="anthropic/claude-x")
        [(_, report)] = engine.admin.run_pending()
        assert report is not None
        assert report.compacted


def test_a_transcript_that_is_longer_than_the_window_is_no_overflow(tmp_path: Path) -> None:
    """Older hosts count their whole transcript before a turn, which no fold makes shorter: the turn goes on."""
    asked = {"tokenBudget": 3_000, "force": True, "compactionTarget": "budget", "trigger": "cli_budget"}
    with PluginEnd(tmp_path / "lcm.db", freshTailCount=4, leafChunkTokens=600) as plugin:
        for number in range(12):
            commit(plugin, number, tokenBudget=3_000)
        first = plugin.call("compact", sessionKey=KEY, currentTokenCount=50_000, **asked)
        assert first["compacted"] or "already under target" in first["reason"], first
        long = [{"role": "user", "content": "look"}, {"role": "assistant", "content": "a long answer " * 2_000}]
        plugin.call("commitTurn", sessionKey=KEY, advancementKey="long", messages=long, tokenBudget=3_000)
        for number in range(100, 103):
            for _ in range(3):
                again = plugin.call("compact", sessionKey=KEY, currentTokenCount=90_000, **asked)
                assert again["ok"], again
                assert again["compacted"] or "already under target" in again["reason"], again
            made = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=3_000, prompt="and now?")
            assert "<summary" in str(made["messages"])
            commit(plugin, number, tokenBudget=3_000)
    with lossless.open(tmp_path / "lcm.db", lossless.Settings()) as engine:
        found = engine.archive.conversations.find(Session(key=KEY))
        assert found is not None
        assert (kept := engine.archive.guards.history(found.id)) is None or kept.frame == 0


def test_a_target_that_cannot_be_reached_is_told_with_what_takes_the_room(tmp_path: Path) -> None:
    asked = {"tokenBudget": 3_000, "force": True, "compactionTarget": "budget", "trigger": "overflow"}
    with PluginEnd(tmp_path / "lcm.db", freshTailCount=4, leafChunkTokens=600) as plugin:
        long = [{"role": "user", "content": "look " * 8_000}]
        plugin.call("commitTurn", sessionKey=KEY, advancementKey="long", messages=long, tokenBudget=3_000)
        told = plugin.call("compact", sessionKey=KEY, currentTokenCount=9_000, **asked)
        assert not told["compacted"]
        assert "the newest turn takes" in told["reason"], told


def test_without_a_budget_the_setting_says_what_fits(tmp_path: Path) -> None:
    window = [message for number in range(40) for message in messages(number)]
    config: dict[str, Any] = {"ignoreSessionPatterns": [KEY], "defaultTokenBudget": 2000}
    with PluginEnd(tmp_path / "lcm.db", **config) as plugin:
        made = plugin.call("assemble", sessionKey=KEY, messages=window)
        all_of_it = plugin.call("assemble", sessionKey=KEY, messages=window, tokenBudget=100_000)
    assert made["liveFrom"] > 0 == all_of_it["liveFrom"]
    assert made["estimatedTokens"] <= 2000


def test_a_model_is_remembered_until_another_is_named() -> None:
    bridge = Bridge(None, None)  # type: ignore[arg-type]

    def told(**params: Any) -> tuple[Any, Any]:
        limits = bridge.limits(PluginCall(1, "", {"sessionKey": KEY} | params))
        return limits["model"], limits["context_window"]

    assert told() == (None, None)
    assert told(model="a/b", contextWindow=100) == ("a/b", 100)
    assert told() == ("a/b", 100)
    assert told(model="a/b") == ("a/b", 100)
    assert told(model="a/b", promptBudget=70) == ("a/b", 100)
    assert told(model="c/d") == ("c/d", None)
    assert told(model="c/d", promptBudget=70) == ("c/d", 70)
    assert told() == ("c/d", None)


def test_what_the_host_counts_is_believed(tmp_path: Path) -> None:
    for frames in (True, False):
        with PluginEnd(tmp_path / f"{frames}.db", freshTailCount=2, leafChunkTokens=600) as plugin:
            for number in range(8):
                commit(plugin, number, tokenBudget=10_000, currentTokenCount=9_990, hostFrames=frames)
            told = plugin.call(
                "compact", sessionKey=KEY, tokenBudget=10_000, currentTokenCount=9_990, hostFrames=frames
            )
            assert told["reason"] != "below threshold"


def test_an_overflow_reaches_its_target_or_says_why_not(tmp_path: Path) -> None:
    """The host counts far more than we have sent: that is its frame, and from now on it is left room."""
    with PluginEnd(tmp_path / "lcm.db", freshTailCount=64, leafChunkTokens=600) as plugin:
        for number in range(24):
            commit(plugin, number, tokenBudget=10_000)
        before = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=10_000, prompt="x")
        counted = before["estimatedTokens"] + 7_000
        overflow = {"tokenBudget": 10_000, "currentTokenCount": counted, "force": True, "compactionTarget": "budget"}
        told = plugin.call("compact", sessionKey=KEY, **overflow)
        left = told["result"]["details"]["historyBudget"]
        assert left <= 3_000
        assert told["ok"] or "tokens are left where" in told["reason"]
        after = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=10_000, prompt="x")
        assert after["estimatedTokens"] + 7_000 <= 10_000
        assert any("<summary" in str(message["content"]) for message in after["messages"])


def test_instructions_for_one_compaction_are_told_to_the_model_that_time_only(tmp_path: Path) -> None:
    words = "Keep every port number."
    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": noted}, **SMALL) as plugin:
        for first, given in ((0, {"customInstructions": words}), (10, {})):
            for number in range(first, first + 5):
                commit(plugin, number, tokenBudget=100_000)
            plugin.asked.clear()
            assert plugin.call("compact", sessionKey=KEY, tokenBudget=100_000, force=True, manual=True, **given)["ok"]
            prompts = [
                f"{params['system']}{params['user']}" for method, params in plugin.asked if method == "llm.complete"
            ]
            assert prompts
            assert all((words in prompt) is bool(given) for prompt in prompts)


def test_a_compaction_ends_with_a_report_before_the_hosts_time_is_over(tmp_path: Path) -> None:
    free = threading.Event()

    def hang(params: dict[str, Any]) -> None:
        free.wait()

    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": hang}, **SMALL) as plugin:
        for number in range(8):
            commit(plugin, number, tokenBudget=100_000)
        told = plugin.call("compact", sessionKey=KEY, tokenBudget=100_000, force=True, manual=True, deadlineMs=5000)
        (given,) = (params["timeoutMs"] for method, params in plugin.asked if method == "llm.complete")
        assert 0 < given <= 5000 - 1000 * MARGIN_SECONDS, "the model gets less time than there is"
        assert told["ok"]
        assert told["compacted"]
        none_left = {"deadlineMs": 1000 * MARGIN_SECONDS - 1}
        too_late = plugin.call("compact", sessionKey=KEY, tokenBudget=100_000, force=True, manual=True, **none_left)
        assert too_late["compacted"] is False
        free.set()


def test_heartbeats_with_nothing_to_say_are_stored_but_not_shown(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    quiet = [{"role": "user", "content": "Anything to do?"}, {"role": "assistant", "content": "HEARTBEAT_OK"}]
    with PluginEnd(database) as plugin:
        commit(plugin, 1)
        commit(plugin, 2, messages=quiet, isHeartbeat=True)
        assert plugin.call("ingestBatch", sessionKey=KEY, messages=quiet, isHeartbeat=True, key="b") == {
            "ingestedCount": 2
        }
        commit(plugin, 3)
        made = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=9000, prompt="x")["messages"]
        assert "HEARTBEAT_OK" not in str(made)
        assert "q1" in str(made)
        assert plugin.call("control", sessionKey=KEY)["messageCount"] == 8


def test_heartbeats_that_say_something_are_shown_once(tmp_path: Path) -> None:
    """The host writes a heartbeat's question down before the turn begins; its window does not have it yet."""
    poll: dict[str, Any] = {"role": "user", "content": "[OpenClaw heartbeat poll]"}
    asked = [{"role": "custom", "content": "a note"}, {"role": "user", "content": "Follow the notes."}]
    window: list[dict[str, Any]] = []
    with PluginEnd(tmp_path / "lcm.db") as plugin:
        for number in range(4):
            turn = [poll, {"role": "assistant", "content": [{"type": "text", "text": f"News {number}."}]}]
            commit(plugin, number, messages=turn, isHeartbeat=True)
            window += turn
        assert plugin.call("ingest", sessionKey=KEY, message=poll, key="next") == {"ingested": True}
        for more in ([], asked):
            told = {"messages": [*window, *more], "tokenBudget": 9000, "prompt": "Follow the notes."}
            made = plugin.call("assemble", sessionKey=KEY, **told)
            assert [message["content"] for message in made["messages"]].count(poll["content"]) == 5
            assert (len(made["messages"]), made["liveFrom"]) == (9, 8)


def test_a_second_instance_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    free, asked = threading.Event(), threading.Event()

    def hang(params: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        free.wait()
        return noted(params)

    database = tmp_path / "lcm.db"
    with PluginEnd(database, answers={"llm.complete": hang}, **SMALL) as one, PluginEnd(database, **SMALL) as other:
        for number in range(8):
            commit(one, number, tokenBudget=100_000)
        folding = one.send("compact", {"sessionKey": KEY, "tokenBudget": 100_000, "force": True, "manual": True})
        assert asked.wait(60)
        told = other.call("compact", sessionKey=KEY, tokenBudget=100_000, force=True, manual=True)
        assert told["reason"] == "another worker is compacting this conversation"
        assert other.call("assemble", sessionKey=KEY, messages=[], tokenBudget=9000, prompt="x")["messages"]
        commit(other, 20)
        free.set()
        assert one.result(folding)["ok"]
    assert summaries(database) > 0


def test_a_model_that_cannot_be_reached_is_named_with_the_way_out(tmp_path: Path) -> None:
    def refuse(params: dict[str, Any]) -> None:
        raise RuntimeError("connect ECONNREFUSED 127.0.0.1:9")

    config = {"contextThresholdOverrides": RULES, "leafChunkTokens": 600}
    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": refuse}, **config) as plugin:
        for number in range(8):
            commit(plugin, number, tokenBudget=100_000, model="anthropic/claude-x")
        wait_for(lambda: "the last one failed" in plugin.call("command", sessionKey=KEY, args="status")["text"])
        text = plugin.call("command", sessionKey=KEY, args="status")["text"]
        assert "summary model failed" in text, text
        assert "the next attempt is" in text, text
        assert "name another one in summaryModel" in text, text

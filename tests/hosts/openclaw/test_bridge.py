"""The bridge as the plugin uses it, with the real process and a real archive."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.hosts.openclaw.bridge import Bridge
from lossless.hosts.openclaw.rpc import PluginCall
from lossless.model.conversations import Session
from tests.hosts.openclaw.plugin_end import KEY, PluginEnd
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, Any] = {"freshTailCount": 4, "leafChunkTokens": 600, "maxAssemblyTokenBudget": 3000}


def noted(params: dict[str, Any]) -> dict[str, Any]:
    assert params["user"]
    return {"text": "A short note.", "provider": "fake", "model": "m-1", "usage": {"inputTokens": 7, "outputTokens": 2}}


def messages_of(database: Path) -> int:
    with lossless.open(database, lossless.Settings()) as engine:
        assert engine.verify().ok
        return engine.archive.listings.counts().messages


def test_a_turn_is_stored_once_however_often_the_process_dies(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    for _ in range(3):
        plugin = PluginEnd(database)
        assert plugin.commit(1) in ("committed", "duplicate")
        plugin.send("commitTurn", {"sessionKey": KEY, "advancementKey": "turn-2", "messages": []})
        plugin.kill()
    with PluginEnd(database) as plugin:
        assert plugin.commit(1) == "duplicate"
    assert messages_of(database) == 2


def test_two_processes_share_an_archive(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with PluginEnd(database) as one, PluginEnd(database) as other:
        work = [
            threading.Thread(target=lambda plugin=plugin: [plugin.commit(n) for n in range(1, 16)])
            for plugin in (one, other)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert messages_of(database) == 30


def test_turns_of_a_session_are_stored_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with PluginEnd(database) as plugin:
        sent = [
            plugin.send(
                "ingest",
                {"sessionKey": f"{KEY}:{n % 3}", "message": {"role": "user", "content": f"n{n}"}, "key": f"{n}"},
            )
            for n in range(60)
        ]
        assert all(plugin.result(number)["ingested"] for number in sent)
    with lossless.open(database, lossless.Settings()) as engine:
        for lane in range(3):
            conversation = engine.archive.conversations.find(Session(key=f"{KEY}:{lane}"))
            assert conversation is not None
            stored = [row.message.content for row in engine.archive.messages.in_order(conversation.id)]
            assert stored == [f"n{n}" for n in range(60) if n % 3 == lane]


def test_the_hosts_model_writes_summaries_for_the_call_that_is_open(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": noted}, **SMALL) as plugin:
        for n in range(1, 9):
            plugin.commit(n)
        number = plugin.send("compact", {"sessionKey": KEY, "tokenBudget": 3000, "force": True})
        done = plugin.result(number)
        assert done["ok"]
        asked = [params for method, params in plugin.asked if method == "llm.complete"]
        assert number in {params.get("call") for params in asked}
        assert {"system", "user", "maxTokens", "purpose", "timeoutMs"} <= asked[0].keys()


def test_a_model_that_hangs_holds_up_nothing_and_its_call_can_be_cancelled(tmp_path: Path) -> None:
    free = threading.Event()

    def hang(params: dict[str, Any]) -> None:
        free.wait()

    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": hang}, **SMALL) as plugin:
        for n in range(1, 8):
            plugin.commit(n)
        folding = plugin.send("compact", {"sessionKey": KEY, "tokenBudget": 9000, "force": True, "deadlineMs": 280_000})
        wait_for(lambda: any(method == "llm.complete" for method, _ in plugin.asked))
        assert plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=9000, prompt="x")["messages"]
        assert plugin.commit(50) == "committed"
        assert not plugin.has_result(folding)
        plugin.write({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": folding}})
        with pytest.raises(RuntimeError, match="cancelled"):
            plugin.result(folding)
        assert any(method == "$/cancel" for method, _ in plugin.asked)
        free.set()


def test_a_denied_model_is_not_replaced_by_another(tmp_path: Path) -> None:
    def deny(params: dict[str, Any]) -> None:
        raise RuntimeError("model override is not allowed by policy")

    config = SMALL | {"summaryModel": "anthropic/claude-h"}
    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": deny}, **config) as plugin:
        for n in range(1, 9):
            plugin.commit(n)
        told = plugin.call("compact", sessionKey=KEY, tokenBudget=3000, force=True)
        asked = [params for method, params in plugin.asked if method == "llm.complete"]
        assert {params["model"] for params in asked} == {"anthropic/claude-h"}
        assert not told["ok"] or told["result"]["details"]["modelCalls"] >= 0


def test_a_model_that_cannot_be_reached_is_asked_once_and_the_person_is_told(tmp_path: Path) -> None:
    works = threading.Event()

    def connect(params: dict[str, Any]) -> dict[str, Any]:
        if not works.is_set():
            raise RuntimeError("connect ECONNREFUSED 127.0.0.1:18801")
        return noted(params)

    config = {"freshTailCount": 4, "leafChunkTokens": 600}
    with PluginEnd(tmp_path / "lcm.db", answers={"llm.complete": connect}, **config) as plugin:
        for n in range(1, 25):
            plugin.commit(n)
        told = plugin.call("compact", sessionKey=KEY, tokenBudget=3000, force=True)
        asked = [method for method, _ in plugin.asked if method == "llm.complete"]
        assert len(asked) == told["result"]["details"]["modelCalls"] == 1
        assert len(told["result"]["details"]["summaryIds"]) > 1
        assert told["compacted"]
        said = "OpenClaw's model could not be asked (model), so what was left was folded without it"
        assert said in told["reason"]
        assert "name another one in summaryModel" in told["reason"]
        status = plugin.call("command", sessionKey=KEY, args="status")["text"]
        assert "the model could not be asked at" in status
        assert "Kept: 1 conversations, 48 messages " in status
        assert "name another one in summaryModel" in status
        typed = plugin.call("command", sessionKey=KEY, args="compact")["text"]
        assert "nothing folded" in typed or "cannot be reached" in typed
        works.set()
        for n in range(25, 40):
            plugin.commit(n)
        healed = plugin.call("compact", sessionKey=KEY, tokenBudget=3000, force=True)
        assert "summaryModel" not in healed["reason"]
        assert "could not be asked" not in plugin.call("command", sessionKey=KEY, args="status")["text"]


def test_the_smallest_budget_of_a_turn_holds_until_the_next_one() -> None:
    bridge, session = Bridge(None, None), Session(key=KEY)  # type: ignore[arg-type]

    def budget(offered: int | None) -> tuple[Any, Any]:
        limits = bridge.limits(PluginCall(1, "", {"sessionKey": KEY} | {"tokenBudget": offered}))
        return limits["budget"], limits["overhead"]

    assert [budget(offered) for offered in (None, 100, 128, None)] == [(None, None), (100, 0), (128, 28), (128, 28)]
    bridge.begin_turn(session)
    assert budget(90) == (128, 38), "the window is what the turn before had"
    bridge.begin_turn(session)
    assert budget(80) == (90, 10), "until another model has been used for a turn"


def test_a_prompt_does_not_change_on_its_way_through_a_turn(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db", freshTailCount=4, leafChunkTokens=600) as plugin:
        for n in range(1, 30):
            plugin.commit(n)
        ask = {"sessionKey": KEY, "prompt": "what was fact-2?"}
        first = plugin.call("assemble", **ask, messages=[], tokenBudget=3000)
        for _ in range(3):
            window = first["messages"]
            again = plugin.call("assemble", **ask, messages=window[-64:], messageCount=len(window), tokenBudget=9000)
            assert again["messages"] == first["messages"]
            assert again["liveFrom"] == len(window)


def test_the_steps_of_a_turn_that_only_the_hosts_budget_tells_of_have_room(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db") as plugin:
        for n in range(1, 15):
            plugin.commit(n)
        ask = {"sessionKey": KEY, "prompt": "what was fact-2?"}
        first = plugin.call("assemble", **ask, messages=[], tokenBudget=6000, promptBudget=6000)
        window = first["messages"]
        again = plugin.call("assemble", **ask, messages=window, tokenBudget=9000 - 2000, promptBudget=9000)
        assert again["estimatedTokens"] <= 6000 - 1.5 * 2000 < first["estimatedTokens"]
        assert again["liveFrom"] == len(window), "what was quoted before is not shown again"


def test_a_long_window_is_asked_for_only_when_its_end_is_not_enough(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db") as plugin:
        plugin.commit(1)
        strange = [{"role": "user", "content": f"strange {n}"} for n in range(64)]
        asked = plugin.call("assemble", sessionKey=KEY, messages=strange, messageCount=100, tokenBudget=9000)
        assert asked == {"needsAll": True}
        whole = plugin.call("assemble", sessionKey=KEY, messages=strange, messageCount=64, tokenBudget=9000)
        assert (whole["messages"], whole["liveFrom"]) == ([], 0)


def test_an_ignored_session_is_left_to_the_host(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db", ignoreSessionPatterns=["agent:main:cron:**"]) as plugin:
        key = "agent:main:cron:job:1"
        assert plugin.commit(1, key=key) == "committed"
        assert plugin.call("compact", sessionKey=key, tokenBudget=3000, force=True) == {"delegate": True}
        assert plugin.call("control", sessionKey=key) == {"active": False, "messageCount": 0}


def test_a_transcript_file_and_the_turns_of_an_older_host_are_one_history(tmp_path: Path) -> None:
    import json

    file = tmp_path / "run-1.jsonl"
    records: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "run-1", "timestamp": "2026-01-01T00:00:00Z"}
    ]
    session = {"sessionKey": KEY, "sessionId": "run-1", "sessionFile": str(file)}
    with PluginEnd(tmp_path / "lcm.db") as plugin:
        parent = None
        for n in range(6):
            message = {"role": "user" if n % 2 == 0 else "assistant", "content": [{"type": "text", "text": f"m{n}"}]}
            record = {"type": "message", "id": f"{n:08x}", "parentId": parent, "message": message}
            records.append(record | {"timestamp": f"2026-01-01T00:00:0{n}Z"})
            parent = record["id"]
            if n > 1:  # the host writes its file with the first answer
                file.write_text("".join(json.dumps(one) + "\n" for one in records))
            plugin.call("afterTurn", **session, messages=[message], key=f"k{n}", tokenBudget=9000)
        assert plugin.call("bootstrap", **session)["importedMessages"] == 0
        assert plugin.call("control", sessionKey=KEY)["messageCount"] == 6
        rest = plugin.call("maintain", **session, tokenBudget=9000)
        assert rest["changed"] is False


def test_a_big_message_is_shown_once_in_its_own_turn(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db", largeFileThresholdTokens=1000, maxAssemblyTokenBudget=8000) as plugin:
        plugin.commit(1)
        big = {"role": "user", "content": [{"type": "text", "text": "keep: " + " ".join(f"w{n}" for n in range(9000))}]}
        plugin.call("afterTurn", sessionKey=KEY, messages=[big], key="k", tokenBudget=128_000)
        window = plugin.call("assemble", sessionKey=KEY, messages=[], tokenBudget=128_000)["messages"][:-1]
        made = plugin.call("assemble", sessionKey=KEY, messages=[*window, big], tokenBudget=128_000)
        assert made["liveFrom"] == len(window)
        assert made["messages"] == window
        assert made["estimatedTokens"] > 9000
        alone = plugin.call("assemble", sessionKey=KEY, messages=window, tokenBudget=128_000)
        assert "[LCM Raw Payload: file_" in str(alone["messages"][-1]["content"])


def test_the_tokenizer_of_a_model_is_learned_from_how_its_prompts_grow(tmp_path: Path) -> None:
    """Whatever OpenClaw's own system prompt and tools take."""
    database, frame = tmp_path / "lcm.db", 17_000
    window: list[dict[str, Any]] = []
    with PluginEnd(database) as plugin:
        for n in range(8):
            said = {"role": "user", "content": f"turn {n}: " + "some words of a long message " * 200}
            window.append(said)
            made = plugin.call("assemble", sessionKey=KEY, messages=window, tokenBudget=200_000, model="fake/m-1")
            usage = {"input": frame + 2 * made["estimatedTokens"], "output": 5, "cacheRead": 0, "cacheWrite": 0}
            reply = {"role": "assistant", "content": [{"type": "text", "text": "Noted."}], "usage": usage}
            window.append(reply)
            plugin.call("commitTurn", sessionKey=KEY, advancementKey=f"turn-{n}", messages=[said, reply])
    with lossless.open(database, lossless.Settings()) as engine:
        rows = engine.archive.database.rows("SELECT model, ratio, observations FROM token_factors")
    assert len(rows) == 1
    model, ratio, count = rows[0]
    assert model == "fake/m-1"
    assert 1.7 < ratio < 2.1
    assert count >= 5


@pytest.mark.parametrize(
    ("typed", "left", "gives_back"),
    [
        ("doctor clean apply", {KEY}, False),
        ("doctor clean apply vacuum", {KEY}, True),
        ("doctor clean apply cron_sessions vacuum", {KEY, "agent:main:subagent:a"}, True),
    ],
)
def test_a_person_cleans_up_by_all_filters_or_by_one(
    tmp_path: Path, typed: str, left: set[str], gives_back: bool
) -> None:
    database = tmp_path / "lcm.db"
    with lossless.open(database, lossless.Settings(), background=False) as engine:
        for key in (KEY, "agent:main:subagent:a", "agent:main:cron:b"):
            engine.append(lossless.Session(key=key), [{"role": "user", "content": f"Words of {key}."}])
        for key in ("agent:main:subagent:a", "agent:main:cron:b"):
            engine.host.end(lossless.Session(key=key), "deleted")
    with PluginEnd(database) as plugin:
        listed = plugin.call("command", sessionKey=KEY, args="doctor clean")["text"]
        assert "archived_subagents: 1 conversations" in listed
        done = plugin.call("command", sessionKey=KEY, args=typed)["text"]
        assert f"{3 - len(left)} conversations" in done
        assert "Backup: " in done
        assert ("The room was given back." in done) == gives_back
        refused = plugin.call("command", sessionKey=KEY, args="doctor clean apply cron_sessions now")["text"]
        assert "clean apply [FILTER] [vacuum]" in refused
    with lossless.open(database, lossless.Settings(), background=False) as engine:
        ids = engine.archive.checks.conversation_ids()
        assert {engine.archive.conversations.get(id_).session_key for id_ in ids} == left

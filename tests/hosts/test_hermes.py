"""Hermes Agent with the real package (`make test-host HOST=hermes`): its interface, as its host uses it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from copy import deepcopy
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.testing.provider import Provider, Say
from tests.compaction.loop_kit import settings, talk
from tests.hosts.examples import run_example

pytest.importorskip("agent.context_engine", reason="its own environment has it")

from agent.context_engine import ContextEngine

from lossless.hosts.hermes import LosslessEngine
from lossless.providers.token_limits import window_tokens


class Host:
    """What a plugin is given."""

    engine: Any = None

    def register_context_engine(self, engine: Any) -> None:
        self.engine = engine


def test_the_entry_point_registers_an_engine() -> None:
    (found,) = entry_points(group="hermes_agent.plugins", name="lcm")
    host = Host()
    found.load().register(host)
    assert isinstance(host.engine, ContextEngine)
    assert host.engine.name == "lcm"
    assert deepcopy(host.engine).get_status()["compression_count"] == 0


def test_copies_have_sessions_of_their_own(path: Path) -> None:
    with lossless.open(path, settings(), background=False) as archive:
        first = LosslessEngine(archive)
        first.on_session_start("a", context_length=4_000)
        second = deepcopy(first)
        second.on_session_start("b", context_length=8_000)
        first.on_session_end("a", talk(4))
        second.on_session_end("b", talk(6, seed=1))
        assert (first.threshold_tokens, second.threshold_tokens) == (3_000, 6_000)
        keys = archive.archive.database.rows("SELECT session_key FROM conversations ORDER BY 1", ())
        assert [key for (key,) in keys] == ["hermes:a", "hermes:b"]


def test_compressing_loses_nothing(path: Path) -> None:
    with lossless.open(path, settings(), background=False) as archive:
        engine = LosslessEngine(archive)
        engine.on_session_start("run", context_length=4_000)
        window: list[Any] = [{"role": "system", "content": "Be brief."}]
        for message in talk(120):
            window.append(message)
            if engine.should_compress_preflight(window):
                window = engine.compress(window)
                assert not engine.should_compress_preflight(window)
                assert window[0] == {"role": "system", "content": "Be brief."}
                assert window[-1] == message
        engine.on_session_end("run", window)
        assert engine.compression_count > 1
        assert archive.verify().ok
        assert archive.verify().messages == 121
        names = [schema["name"] for schema in engine.get_tool_schemas()]
        assert "lcm_grep" in names
        found = json.loads(engine.handle_tool_call("lcm_grep", {"pattern": "^0: "}, messages=window))
        assert "0: " in found["result"]
        assert "error" in json.loads(engine.handle_tool_call("no_such_tool", {}))
        engine.update_model("small", 2_000)
        found = json.loads(engine.handle_tool_call("lcm_grep", {"pattern": ": ", "limit": 200}))
        assert 200 < estimate_tokens(found["result"]) <= 520  # it leaves room for more


def test_it_can_be_called_as_the_interface_says() -> None:
    for name, wanted in inspect.getmembers(ContextEngine, inspect.isfunction):
        if name.startswith("__"):
            continue
        named = [one for one in inspect.signature(wanted).parameters.values() if one.kind != one.VAR_KEYWORD]
        ours = inspect.signature(getattr(LosslessEngine, name))
        ours.bind(*(one.name for one in named))
        ours.bind("self", **{one.name: one.name for one in named[1:]})
    assert ContextEngine.__abstractmethods__ <= set(vars(LosslessEngine))


def test_a_session_goes_on_under_its_name(path: Path) -> None:
    with lossless.open(path, settings(), background=False) as archive:
        engine = LosslessEngine(archive)
        engine.on_session_start("one", context_length=4_000)
        engine.on_session_end("one", talk(4))
        engine.on_session_start("two", boundary_reason="compression", old_session_id="one", conversation_id=None)
        engine.on_session_end("two", talk(6))
        engine.on_session_reset()
        engine.on_session_end("two", talk(2, seed=5))
        LosslessEngine(archive).on_session_reset()
        engine.on_session_start("three")
        engine.on_session_end("three", talk(2, seed=6))
        rows = archive.archive.database.rows(
            "SELECT session_key, count(*) FROM conversations JOIN messages USING (conversation_id)"
            " GROUP BY conversation_id",
            (),
        )
        assert [tuple(row) for row in rows] == [("hermes:one", 6), ("hermes:one", 2), ("hermes:three", 2)]


@pytest.mark.parametrize("joint", ["\n\n", None], ids=["joined", "apart"])
def test_a_host_that_joins_our_summaries_does_not_feed_them_back(path: Path, joint: str | None) -> None:
    with lossless.open(path, settings(), background=False) as archive:
        engine = LosslessEngine(archive)
        engine.on_session_start("run", context_length=4_000)
        window: list[Any] = []
        said = talk(160)
        for message in said:
            window.append(message)
            if engine.should_compress_preflight(window):
                window = engine.compress(window, current_tokens=window_tokens(window) + 500)
                assert window_tokens(window) + 500 <= engine.threshold_tokens
                window = joined(window, joint) if joint else window
        engine.on_session_end("run", window)
        rows = archive.archive.database.rows("SELECT content FROM messages ORDER BY message_id", ())
        assert [content for (content,) in rows] == [message["content"] for message in said]
        assert archive.verify().ok


def joined(window: list[Any], joint: str) -> list[Any]:
    """Neighbours of one role as one message, as hosts send them."""
    made: list[Any] = []
    for message in window:
        if made and made[-1]["role"] == message["role"] == "user":
            made[-1] = {"role": "user", "content": made[-1]["content"] + joint + message["content"]}
        else:
            made.append(message)
    return made


def test_a_pasted_summary_stays_in_one_piece(path: Path) -> None:
    with lossless.open(path, background=False) as archive:
        engine = LosslessEngine(archive)
        engine.on_session_start("run", context_length=4_000)
        pasted = '<summary id="sum_0000000000000000" kind="leaf">\n</summary>\n\nWhat is this?'
        engine.on_session_end("run", [{"role": "user", "content": "hello"}])
        engine.on_session_end("run", [{"role": "user", "content": "hello"}, {"role": "user", "content": pasted}])
        rows = archive.archive.database.rows("SELECT content FROM messages ORDER BY message_id", ())
        assert [content for (content,) in rows] == ["hello", pasted]


def test_the_host_itself(tmp_path: Path) -> None:
    """The program as people run it, with a provider that plays a part: three long turns are more than its window."""
    with Provider(lambda _: Say("Noted.")) as provider:
        model = {"default": "scripted", "provider": "custom", "base_url": f"{provider.url}/v1", "api_key": "none"}
        config = {
            "model": {**model, "context_length": 70_000},
            "plugins": {"enabled": ["lcm"]},
            "context": {"engine": "lcm"},
        }
        (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        places = {"HOME": str(tmp_path), "HERMES_HOME": str(tmp_path), "LCM_DATABASE_PATH": str(tmp_path / "lcm.db")}
        asked = [f"{n}: " + " ".join(f"w{n}x{k}" for k in range(8_000)) for n in range(4)]
        for n, text in enumerate(asked):
            command = [str(Path(sys.executable).with_name("hermes")), "chat", "-Q", "-q", text]
            done = subprocess.run(
                [*command, *(["--continue"] if n else [])],
                env={"PATH": os.environ["PATH"], **places},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "Noted." in done.stdout
        last = next(request.body for request in reversed(provider.requests) if request.path.endswith("/completions"))
    assert "<summary" in json.dumps(last["messages"])
    assert {"lcm_grep", "lcm_recall"} <= {tool["function"]["name"] for tool in last["tools"]}
    with lossless.open(tmp_path / "lcm.db", background=False) as archive:
        rows = archive.archive.database.rows("SELECT role, content FROM messages ORDER BY message_id", ())
        kept = [(str(role), str(content)) for role, content in rows]
        assert kept == [pair for text in asked for pair in (("user", text), ("assistant", "Noted."))]
        assert archive.verify().ok


def test_usage_decides_when(path: Path) -> None:
    with lossless.open(path, background=False) as archive:
        engine = LosslessEngine(archive)
        assert not engine.should_compress(10**9)
        engine.update_model("m", 1_000)
        engine.update_from_response({"prompt_tokens": 800, "completion_tokens": 5, "total_tokens": 805})
        assert engine.should_compress()
        assert not engine.should_compress(10)


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_hermes", tmp_path).startswith("201 messages kept")

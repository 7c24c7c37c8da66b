"""Hermes Agent with the real package (`make test-host HOST=hermes`): its interface, as its host uses it."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from tests.hosts.examples import run_example
from tests.loop.kit import settings, talk

pytest.importorskip("agent.context_engine", reason="its own environment has it")

from agent.context_engine import ContextEngine

from lossless.hosts.hermes import LosslessEngine

if TYPE_CHECKING:
    from pathlib import Path


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

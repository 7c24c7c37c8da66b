"""Google ADK with the real package (`make test-host HOST=google-adk`): a plugin in its runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from tests.hosts.examples import run_example

pytest.importorskip("google.adk", reason="its own environment has it")

from google.genai import types

from lossless.hosts.google_adk import _given_back, _window

if TYPE_CHECKING:
    from pathlib import Path


def test_contents_come_back_as_they_were(engine: lossless.Engine) -> None:
    contents = [
        types.Content(role="user", parts=[types.Part(text="look")]),
        types.Content(
            role="model",
            parts=[
                types.Part(text="hm", thought=True),
                types.Part(text="Looking."),
                types.Part(function_call=types.FunctionCall(id="c1", name="ls", args={"path": "."})),
                types.Part(function_call=types.FunctionCall(id="c2", name="pwd", args={})),
            ],
        ),
        types.Content(
            role="user",
            parts=[
                types.Part(function_response=types.FunctionResponse(id="c1", name="ls", response={"result": "README"})),
                types.Part(function_response=types.FunctionResponse(id="c2", name="pwd", response={"result": "/"})),
            ],
        ),
        types.Content(role="model", parts=[types.Part(text="Done.")]),
    ]
    session = lossless.Session(key="adk")
    engine.sync(session, _window(contents))
    assert engine.sync(session, _window(contents)).stored == 0
    made = engine.assemble(session, allow_trailing_assistant=True)
    assert _given_back(made.parts) == contents
    assert engine.verify().ok


def test_the_example(tmp_path: Path) -> None:
    assert "At quay seventeen." in run_example("agents_google_adk", tmp_path)
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        assert engine.verify().ok
        assert engine.verify().messages == 126

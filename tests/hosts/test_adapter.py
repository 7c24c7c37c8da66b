"""Every adapter is small, and has all that a person needs: an extra, a page, an example, a test, an environment."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.forking import run_forked

ROOT = Path(__file__).parents[2]
#: Adapters: the extra that installs their package, the package's own name, the page, the example and the test.
ADAPTERS = {
    "openai_agents": ("openai-agents", "agents", "openai-agents", "agents_openai", "openai_agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic_ai", "pydantic-ai", "agents_pydantic_ai", "pydantic_ai"),
    "langchain": ("langchain", "langchain", "langchain", "agents_langchain", "langchain"),
    "langgraph": ("langchain", "langgraph", "langchain", "agents_langgraph", "langchain"),
    "claude_agent": ("claude-agent-sdk", None, "claude-agent-sdk", "agents_claude", "claude_agent"),
    "google_adk": ("google-adk", "google", "google-adk", "agents_google_adk", "google_adk"),
    "hermes": ("hermes", "agent", "hermes", "agents_hermes", "hermes"),
    "chat": (None, None, "chat", "chat_loop", "chat"),
}
MOST_LINES = 350


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_has_all_that_it_needs(adapter: str) -> None:
    extra, _, page, example, test = ADAPTERS[adapter]
    source = (ROOT / f"src/lossless/hosts/{adapter}.py").read_text(encoding="utf-8")
    assert source.count("\n") <= MOST_LINES
    assert (ROOT / f"tests/hosts/test_{test}.py").exists()
    assert f'"{example}"' in (ROOT / f"tests/hosts/test_{test}.py").read_text(encoding="utf-8")
    assert (ROOT / f"examples/{example}.py").exists()
    words = (ROOT / f"docs/hosts/{page}.md").read_text(encoding="utf-8")
    assert f"lossless.hosts.{adapter}" in words or adapter in ("chat", "hermes")
    if extra is not None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert extra in project["optional-dependencies"]
        assert f"lossless[{extra}]" in words
        script = (ROOT / "scripts/test-host").read_text(encoding="utf-8")
        assert re.search(rf"^{extra}\).*test={test} ;;$", script, re.MULTILINE)


@pytest.mark.parametrize("adapter", [name for name, (_, package, *_) in ADAPTERS.items() if package])
def test_a_package_that_is_missing_is_named_with_its_extra(adapter: str) -> None:
    extra, package, *_ = ADAPTERS[adapter]

    def load_without() -> None:
        for name in [name for name in sys.modules if name.startswith((f"{package}.", f"lossless.hosts.{adapter}"))]:
            del sys.modules[name]
        sys.modules[package or ""] = None  # type: ignore[assignment]
        importlib.import_module(f"lossless.hosts.{adapter}")

    code, _, err = run_forked(load_without)
    assert code == 1
    said = err.strip().splitlines()[-1]
    assert said.startswith("ModuleNotFoundError: ")
    assert f"{extra} is not installed" in said
    assert said.endswith(f": pip install 'lossless[{extra}]'")

"""The examples of docs/models.md run, against the loopback where they need a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lossless import errors
from lossless.llm.providers import PROVIDER_URLS

if TYPE_CHECKING:
    from tests.llm.conftest import ModelServer

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TEXT = PAGE.read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=[f"example {n}" for n in range(1, len(EXAMPLES) + 1)])
def test_examples_run(server: ModelServer, code: str) -> None:
    server.answers(server.chat("A line."))
    exec(compile(code.replace("http://localhost:11434/v1", server.v1), str(PAGE), "exec"), {})


def test_every_built_in_provider_is_named() -> None:
    for provider in PROVIDER_URLS:
        assert re.search(rf"[`=]{provider}[`/]", TEXT), provider


def test_every_error_is_explained() -> None:
    explained: list[type[errors.LosslessError]] = [errors.ModelError, errors.GuardOpen]
    for error in explained + errors.ModelError.__subclasses__():
        assert f"| `{error.code}` |" in TEXT

"""`lcm model`: who writes the summaries, and whether they answer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Group
from lossless.cli.output import preview
from lossless.compaction.summariser import Summariser
from lossless.errors import LosslessError, ModelError
from lossless.llm.base import Prompt
from lossless.llm.chain import OpenGate
from lossless.llm.connect import COMMAND
from lossless.llm.prices import format_cost
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.settings.setting import without_passwords

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.llm.candidates import Candidate

_TEST = Prompt("Answer with one word.", "Say: ready", max_tokens=512, temperature=0.0, purpose="test", reasoning="low")


@click.group("model", cls=Group)
def model() -> None:
    """Say which models write summaries, and try them."""


@model.command("test")
@click.option("--no-call", is_flag=True, help="Only say what would be used.")
@click.pass_context
def test_command(ctx: click.Context, no_call: bool) -> None:
    """Say which models would write summaries, in the order in which they are asked, and ask each for one word.

    Without a configured model, summaries are extracted: nothing is called, whatever keys lie in the environment.
    Exit code 1 when models are configured and none of them answers. Keys are never shown.
    """
    invocation: Invocation = ctx.obj
    summariser = Summariser(invocation.loaded.settings)
    items = [_described(summariser, candidate) for candidate in summariser.candidates()]
    if not no_call:
        items = [
            item | _tried(summariser, candidate) for item, candidate in zip(items, summariser.candidates(), strict=True)
        ]
    answers = [item["name"] for item in items if item.get("ok")]
    data = {
        "configured": bool(items),
        "summaries": "written" if items else "extracted",
        "writer": answers[0] if answers else items[0]["name"] if items else EXTRACTIVE_MODEL,
        "items": items,
    }
    is_good = no_call or not items or bool(answers)
    invocation.emit("model.test", data, ok=is_good)
    ctx.exit(failures.OK if is_good else failures.INTERNAL)


def _described(summariser: Summariser, candidate: Candidate) -> dict[str, Any]:
    """Where a model is and where its key comes from; `problem` says why it could not be asked."""
    item: dict[str, Any] = {"name": candidate.name, "namedBy": candidate.source, "address": None, "keyFrom": None}
    if candidate.provider == COMMAND:
        return item | {"address": candidate.model}
    try:
        endpoint = summariser.connector().endpoint(candidate)
        key = endpoint.credential
        item |= {"address": without_passwords(endpoint.address), "keyFrom": None if key is None else key.source}
        endpoint.check()
    except ModelError as error:
        return item | {"problem": str(error)}
    return item


def _tried(summariser: Summariser, candidate: Candidate) -> dict[str, Any]:
    """What came of asking it for one word."""
    chain = replace(summariser.chain(OpenGate()), candidates=(candidate,))
    started = time.monotonic()
    try:
        answer = chain(_TEST)
    except LosslessError as error:
        return {"ok": False, "seconds": _since(started), "error": error.code, "message": str(error)}
    return {
        "ok": True,
        "seconds": _since(started),
        "answer": preview(answer.text),
        "inputTokens": answer.usage.input_tokens,
        "outputTokens": answer.usage.output_tokens,
        "cost": format_cost(answer.usage.cost),
    }


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)

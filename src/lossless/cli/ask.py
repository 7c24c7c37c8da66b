"""`lcm ask`: a question, answered from the archive with the ids that support the answer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.describe import TOKENS
from lossless.cli.toolbox import reaching, use
from lossless.compaction.summariser import Summariser
from lossless.recall.delegate import Model
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.cli.invocation import Invocation
    from lossless.cli.toolbox import Reach
    from lossless.settings import Settings

_PURPOSE = "answer"
_ANSWER_TOKENS = click.IntRange(1, 100_000)


@click.command("ask", cls=Command)
@click.argument("prompt", type=text)
@reaching
@click.option(
    "--query", metavar="WORDS", type=text, help="What to search for; else the words of PROMPT, without --ids."
)
@click.option("--ids", metavar="ID,…", type=text, help="Summaries to begin with, with commas between them.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0.001, 600), help="How long to wait at most.")
@click.option("--max-tokens", metavar="N", type=_ANSWER_TOKENS, help="How long the answer should be.  [default: 2000]")
@click.option("--token-cap", metavar="N", type=TOKENS, help="How much may be read; else the setting maxExpandTokens.")
@click.option("--no-model", is_flag=True, help="Ask no model: the answer is the evidence itself.")
@click.pass_obj
def ask(
    invocation: Invocation,
    prompt: str,
    reach: Reach,
    query: str | None,
    ids: str | None,
    timeout: float | None,
    max_tokens: int | None,
    token_cap: int | None,
    no_model: bool,
) -> None:
    """Answer the question PROMPT from what was said, with the ids that support the answer.

    A configured model reads and answers; every call is counted by `lcm cost`. Without one, the answer is the
    evidence itself, and says so. Exit code 1 when a model was asked and gave no answer.
    """
    named = [id_.strip() for id_ in (ids or "").split(",") if id_.strip()]
    args = {
        "prompt": prompt,
        "query": query or (None if named else prompt),
        "summaryIds": named,
        "maxTokens": max_tokens,
        "tokenCap": token_cap,
        "timeoutMs": None if timeout is None else max(1, round(1000 * timeout)),
    }
    with _opened(invocation, may_ask=not no_model) as (archive, models):
        result = use(invocation, archive, "lcm_expand_query", reach, args, models)
    details = result.details
    if result.is_error and "errorCode" in details:
        raise _no_answer(details)
    found = {"answer": details.get("answer", details.get("error")), "models": [model.name for model in models]}
    invocation.emit("ask", found | {name: value for name, value in details.items() if name != "error"})


def _no_answer(details: dict[str, Any]) -> failures.Failure:
    hint = "With --no-model the answer is the evidence itself."
    return failures.fail(
        "no_answer",
        f"There is no answer: {details['error']}.",
        failures.INTERNAL,
        hint=hint,
        errorCode=details["errorCode"],
        conversations=details.get("conversationBreakdown", []),
    )


@contextmanager
def _opened(invocation: Invocation, *, may_ask: bool) -> Iterator[tuple[Archive, tuple[Model, ...]]]:
    """The archive and who answers. Calls are rows, so it is opened for writing only when there is somebody to call."""
    writers = _writers(invocation.loaded.settings) if may_ask else []
    with invocation.archive() as archive:
        if not writers:
            yield archive, ()
            return
    with Archive.open(invocation.file_path) as archive:
        yield archive, tuple(_model(writer, archive) for writer in writers)


def _writers(settings: Settings) -> list[Summariser]:
    """Who may be asked, in order: the model for answers, then the one for summaries."""
    choices = [settings]
    if settings.expansion_model:
        provider = settings.expansion_provider or settings.summary_provider
        choices.insert(0, replace(settings, summary_model=settings.expansion_model, summary_provider=provider))
    return [writer for writer in map(Summariser, choices) if writer.has_model]


def _model(writer: Summariser, archive: Archive) -> Model:
    gate = writer.gate(archive, 0, lambda: datetime.now(UTC))
    return Model(
        writer.candidates()[0].name,
        writer.chain(replace(gate, scope=_PURPOSE, conversation_id=None, purpose=_PURPOSE, tickets=[])),
    )

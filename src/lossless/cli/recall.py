"""`lcm recall`: a question in plain words, the evidence back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from lossless.cli.commands import Command
from lossless.cli.options import bad, selector
from lossless.cli.output import shape

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection


@click.command("recall", cls=Command)
@click.argument("question")
@selector(required=False)
@click.option("--max-tokens", metavar="N", type=click.IntRange(1), help="How long the evidence may be.")
@click.pass_obj
def recall(invocation: Invocation, question: str, selection: Selection, max_tokens: int | None) -> None:
    """Gather what was said about QUESTION: quotations with their ids and days, the best first.

    No model is asked. "Last Friday" in the question means the one before today; in a quotation it is explained by
    the day on which it was said.
    """
    from lossless.recall.recall import recall
    from lossless.recall.scope import Scope

    if not question.strip():
        raise bad("QUESTION", "it is empty")
    settings = invocation.loaded.settings
    now = datetime.now(ZoneInfo(settings.timezone) if settings.timezone else UTC)
    with invocation.archive() as archive:
        id_ = selection.find(archive)
        scope = Scope("all", None) if id_ is None else Scope("conversation", (id_,))
        found = recall(archive, scope, question, max_tokens or settings.recall_max_tokens, now)
    evidence = [shape(item) | {"reference": item.reference} for item in found.evidence]
    invocation.emit("recall", {"question": question, "note": found.note, "evidence": evidence, "text": str(found)})

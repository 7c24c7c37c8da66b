"""`lcm demo`: on a made-up conversation, keep it once, fold it, assemble it, recall it, prove it."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

import lossless
from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.errors import BadInput
from lossless.testing.sample import PLANTED, sample_conversation
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.testing import AgentMessage

SESSION = lossless.Session(key="agent:demo:ferry")
#: Small numbers, so that a short conversation has something to fold; and no log, which would stay.
SETTINGS = lossless.Settings(fresh_tail_count=24, leaf_chunk_tokens=3_000, independent_log_file_enabled=False)
BUDGET = 8_000
#: What was said once, weeks ago, and how it is looked for.
PATTERN = "sandbox merchant"
#: Questions of which we know the answers; they were all said in what is folded by then.
QUESTIONS = PLANTED[:3]


@click.command("demo", cls=Command)
@click.option(
    "--keep", "folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="Keep the archive in this folder, to look around in it.",
)  # fmt: skip
def demo(folder: Path | None) -> None:
    """Show what lossless does, on a made-up conversation.

    It takes a few seconds, needs no model and no network, and leaves nothing behind unless --keep is given. Your own
    archive is not touched.
    """
    if folder is not None and (folder / "lcm.db").exists():
        raise BadInput(f"there is an archive in {str(folder)!r} already; name another folder")
    if not run_demo(folder):
        raise click.exceptions.Exit(failures.INTERNAL)


def run_demo(folder: Path | None) -> bool:
    """Tell the story in a folder, or in a temporary one, in place of an earlier demo; whether all went well."""
    start = time.perf_counter()
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(TemporaryDirectory(prefix="lossless-demo-")))
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("lcm.db*"):
            old.unlink()
        archive = place / "lcm.db"
        is_right = _tell(archive)
        size = f"The archive takes {archive.stat().st_size / 1024:.0f} kB."
        _say(f"{size} The demo took {time.perf_counter() - start:.1f} s.")
    click.echo()
    if folder is None:
        _detail("Nothing is left of it. To keep the archive: lcm demo --keep DIR")
    else:
        _detail("Look around:")
        for command in ("status", f"context -s {SESSION.key}", f"search {PATTERN}"):
            click.echo(f"     lcm --db {archive} {command}")
    _detail("To start with your own history: lcm init")
    return is_right


def _tell(archive: Path) -> bool:
    conversation = list(sample_conversation())
    calls = sum(block["type"] == "toolCall" for message in conversation for block in message["content"])
    _say(f"A made-up conversation about ferry tickets: {len(conversation)} messages, {calls} tool calls.")

    with lossless.open(archive, SETTINGS) as engine:
        windows = list(_growing_windows(conversation))
        stored = sum(engine.sync(SESSION, window).stored for window in windows)
        _say(f"Stored in {len(windows)} turns: {stored} messages, each once, although a host repeats all of them.")

    with lossless.open(archive, SETTINGS) as engine:
        again = engine.sync(SESSION, conversation)
        _say(f"Shown again as a whole, as after a restart: {again.replayed} recognised, {again.stored} stored.")
        stored = sum(engine.sync(SESSION, window).stored for window in windows)
        count = engine.archive.listings.counts().messages
        _say(f"Shown again turn by turn, as after a crash: {stored} stored. There are still {count} messages.")

        _fold_and_assemble(engine)
        found = engine.grep(PATTERN, session=SESSION, scope="messages", limit=1).hits
        _say(f"Searched for {PATTERN!r}:")
        for hit in found:
            _detail(f"msg#{hit.id}  {' '.join(hit.snippet.split())[:100]}…")
        _say("Asked in plain words, without a model:")
        for fact in QUESTIONS:
            evidence = engine.recall(fact.question, session=SESSION, max_tokens=800)
            quoted = next((item for item in evidence.evidence if fact.answer.lower() in item.text.lower()), None)
            where = "not shown" if quoted is None else f"{quoted.reference}, {quoted.created_at:%d %B}"
            _detail(fact.question)
            _detail(f"→ {fact.answer} ({where})", 4)

        check = engine.verify()
        verdict = "each complete, indexed and reachable" if check.ok else "PROBLEMS"
        _say(f"Verified: {check.messages} messages and {check.summaries} summaries, {verdict}.")
        for problem in check.problems:
            _detail(str(problem))
    return check.ok and count == len(conversation)


def _growing_windows(conversation: Sequence[AgentMessage]) -> Iterator[Sequence[AgentMessage]]:
    """What a host shows after each turn: everything up to the next message of the user."""
    for number, message in enumerate(conversation):
        if number and message["role"] == "user":
            yield conversation[:number]
    yield conversation


def _fold_and_assemble(engine: lossless.Engine) -> None:
    """Fold what is old, without a model, and make the next prompt."""
    whole = engine.assemble(SESSION, budget=10 * BUDGET)
    _say(f"Without summaries, the model would see {len(whole.messages)} messages: {whole.tokens:,} tokens.")
    report = engine.compact(SESSION, budget=BUDGET, force=True)
    summaries = engine.archive.summaries.many(report.summary_ids)
    leaves = sum(summary.kind == "leaf" for summary in summaries)
    _say(
        f"Older messages became {leaves} summaries, and these {plural(len(summaries) - leaves, 'deeper one')}, with "
        f"{report.calls} model calls."
    )
    prompt = engine.assemble(SESSION, budget=BUDGET, format="openai-chat")
    folded = sum(str(message.get("content", "")).startswith("<summary ") for message in prompt.messages)
    _say(
        f"With them it sees {plural(folded, 'summary')} and "
        f"{plural(len(prompt.messages) - folded, 'message')}, "
        f"{prompt.tokens:,} of {BUDGET:,} tokens."
    )


def _say(text: str) -> None:
    first, colon, rest = _wrapped(text, "  ▸  ").partition(":")
    click.echo(click.style(first, bold=bool(colon)) + colon + rest)


def _detail(text: str, indent: int = 0) -> None:
    click.echo(_wrapped(text, " " * (5 + indent)))


def _wrapped(text: str, start: str) -> str:
    width = min(100, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 1000
    return textwrap.fill(text, width, initial_indent=start, subsequent_indent=" " * len(start))

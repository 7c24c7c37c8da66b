"""What lossless does, on a conversation that we made up: keep it once, fold it, assemble it, recall it, prove it.

`make demo`, or `python examples/demo.py [FOLDER]`. It writes only into the folder, .demo by default.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lossless
from lossless.testing import PLANTED, sample_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.testing import AgentMessage

SESSION = lossless.Session(key="agent:demo:ferry")
#: Small numbers, so that a short conversation has something to fold.
SETTINGS = lossless.Settings(fresh_tail_count=24, leaf_chunk_tokens=3_000)
BUDGET = 8_000
#: What somebody said once, weeks ago, and how it is looked for.
PATTERN = "sandbox merchant"
#: Questions of which we know the answers; they were all said in what is folded by then.
QUESTIONS = PLANTED[:3]


def main(folder: Path) -> None:
    """Tell the story, step by step."""
    start = time.perf_counter()
    archive = new_archive(folder)
    conversation = list(sample_conversation())
    calls = sum(block["type"] == "toolCall" for message in conversation for block in message["content"])
    say(f"A made-up conversation about ferry tickets: {len(conversation)} messages, {calls} tool calls.")

    with lossless.open(archive, SETTINGS) as engine:
        windows = list(growing_windows(conversation))
        stored = sum(engine.sync(SESSION, window).stored for window in windows)
        say(f"Kept: {len(windows)} turns, each time the host shows all it has so far; {stored} messages stored.")

    with lossless.open(archive, SETTINGS) as engine:
        again = engine.sync(SESSION, conversation)
        say(f"Replayed at once, as after a restart: {again.replayed} known, {again.stored} stored.")
        stored = sum(engine.sync(SESSION, window).stored for window in windows)
        count = engine.archive.care.counts().messages
        say(f"Replayed turn by turn, as after a crash: {stored} stored. The count stands still at {count}.")

        fold_and_assemble(engine)
        recall(engine)

        check = engine.verify()
        verdict = "each one whole, indexed and reachable" if check.ok else "PROBLEMS"
        say(f"Verified: {check.messages} messages and {check.summaries} summaries, {verdict}.")
        for problem in check.problems:
            print(f"     {problem}")
    say(f"{archive} takes {archive.stat().st_size / 1024:.0f} kB. All of it in {time.perf_counter() - start:.1f} s.")
    print(f"\n     Look around: . .venv/bin/activate, then\n     lcm --db {archive} status")
    print(f"     lcm --db {archive} context --session-key {SESSION.key}\n     lcm --db {archive} grep '{PATTERN}'")
    if not check.ok or count != len(conversation):
        sys.exit(1)


def new_archive(folder: Path) -> Path:
    """The place of an archive that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("lcm.db*"):
        old.unlink()
    return folder / "lcm.db"


def growing_windows(conversation: Sequence[AgentMessage]) -> Iterator[Sequence[AgentMessage]]:
    """What a host shows after each turn: everything up to the next message of the user."""
    for number, message in enumerate(conversation):
        if number and message["role"] == "user":
            yield conversation[:number]
    yield conversation


def fold_and_assemble(engine: lossless.Engine) -> None:
    """Fold what is old, without a model, and make the next prompt."""
    whole = engine.assemble(SESSION, budget=10 * BUDGET)
    say(f"What the model would see now: {len(whole.messages)} messages, {whole.tokens:,} tokens.")
    report = engine.compact(SESSION, budget=BUDGET, force=True)
    summaries = engine.archive.summaries.many(report.summary_ids)
    leaves = sum(summary.kind == "leaf" for summary in summaries)
    say(
        f"Folded into {leaves} leaf and {len(summaries) - leaves} condensed summaries, {report.calls} model calls: "
        f"the context went from {report.tokens_before:,} to {report.tokens_after:,} tokens."
    )
    prompt = engine.assemble(SESSION, budget=BUDGET, format="openai-chat")
    folded = sum(str(message.get("content", "")).startswith("<summary ") for message in prompt.messages)
    say(
        f"What it sees instead: {folded} summaries and {len(prompt.messages) - folded} messages, "
        f"{prompt.tokens:,} of {BUDGET:,} tokens."
    )


def recall(engine: lossless.Engine) -> None:
    """Get folded details back: by words, and by plain questions."""
    found = engine.grep(PATTERN, session=SESSION, scope="messages", limit=1).hits
    say(
        f"Searched for {PATTERN!r}: msg#{found[0].id}: {' '.join(found[0].snippet.split())[:90]}…"
        if found
        else "Nothing."
    )
    say("Asked in plain words, no model needed:")
    for fact in QUESTIONS:
        evidence = engine.recall(fact.question, session=SESSION, max_tokens=800)
        told = next((item for item in evidence.evidence if fact.answer.lower() in item.text.lower()), None)
        where = "not shown" if told is None else f"{told.reference}, {told.created_at:%d %B}"
        print(f"     {fact.question}  →  {fact.answer} ({where})")


def say(text: str) -> None:
    """One step of the story."""
    print(f"  ▸  {text}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo"))

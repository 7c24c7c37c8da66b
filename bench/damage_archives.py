"""Archives for `bench/damage.py`: small, and with everything in them that an archive can hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossless
from bench.agent_conversation import agent_conversation
from bench.damage_lawful import LAWFUL
from lossless.files.vault import open_vault
from lossless.maintenance import repair
from lossless.store.archive import Archive
from lossless.testing import VirtualClock, openai_chat, sample_conversation
from lossless.transfer.archive_file import export_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.recall.scope import GrepMode

#: What is searched for before and after.
WORDS = (
    "ferry",
    "booking refund",
    "deploy",
    "migration",
    "token cache",
    "login",
    "payload-marker",
    "wharf",
    "数据库",
    "zzzz",
)
PATTERN = r"wharf \d+|deploy\w*"
_BUDGETS = (3_000, 60_000)
_SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 100,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "large_file_threshold_tokens": 1_500,
    "independent_log_file_enabled": False,
}


def open_engine(path: Path) -> lossless.Engine:
    """An engine under whose settings few messages make a leaf, and a long answer a file."""
    return lossless.open(path, lossless.Settings(**_SETTINGS), clock=VirtualClock(), background=False)


def _thinking(number: int) -> dict[str, Any]:
    """An answer of Anthropic's with signed thinking, a call and words."""
    return {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": f"The wharf has {number} berths.", "signature": f"c2lnbmVk{number:04d}"},
            {"type": "text", "text": f"Wharf {number} is free; I look it up."},
            {"type": "tool_use", "id": f"toolu_{number:04d}", "name": "berths", "input": {"wharf": number}},
        ],
    }  # fmt: skip


def _berths(number: int, text: str) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number:04d}", "content": text}
    return {"role": "user", "content": [result]}


def agent(path: Path) -> None:
    """Agents with tools and signed thinking, folded; pins, files, a focus brief."""
    with open_engine(path) as engine:
        first = lossless.Session(key="agent:main:main", id="run-1")
        for start in range(0, 60, 6):
            engine.append(first, list(agent_conversation(60, unicode=True))[start : start + 6], key=f"turn {start}")
        for _ in range(4):  # a call makes few summaries; the last ones condense
            engine.compact(first, budget=4_000, force=True)
        engine.pin(first, "The payload-marker of the deploy is never the migration's.")
        engine.pin(first, 3)
        engine.surgery.focus(first, "the login")
        second = lossless.Session(key="agent:main:signed")
        for number in range(1, 7):
            answer = f"berths of wharf {number}: " + "payload-marker row of the table of berths\n" * (
                300 if number % 3 == 0 else 4
            )
            turn = [
                {"role": "user", "content": f"Is wharf {number} free for the ferry? 数据库 {number}"},
                _thinking(number),
            ]
            engine.append(
                second, [*turn, _berths(number, answer), {"role": "assistant", "content": f"Yes, {number} is."}]
            )
        engine.compact(second, budget=1_500, force=True)


def chat(path: Path) -> None:
    """A chat in windows with a system prompt and a branch; a second one with long messages, closed and begun anew."""
    said: list[dict[str, Any]] = [dict(message) for message in openai_chat(sample_conversation(80))]
    with open_engine(path) as engine:
        first = lossless.Session(key="agent:main:main", id="run-1")
        window: list[dict[str, Any]] = [{"role": "system", "content": "You answer about the ferry, briefly."}]
        for start in range(0, 64, 8):
            window += said[start : start + 8]
            engine.sync(first, window)
        engine.compact(first, budget=3_000, force=True)
        window = [*window[:-1], {"role": "assistant", "content": "Another answer about the refund of the booking."}]
        engine.sync(first, window)
        second = lossless.Session(key="agent:main:long")
        long = " ".join(f"Line {n}: the migration of the token cache was {n} ms late." for n in range(400))
        engine.append(second, [{"role": "user", "content": long}, {"role": "assistant", "content": "So it was."}])
        engine.append(second, [lossless.Incoming({"role": "user", "content": "By its entry."}, entry_id="e1")])
        engine.pin(second, "Say wharf, never pier.")
        engine.new(lossless.Session(key="agent:main:long"))
        engine.append(second, said[64:72])


def foreign(path: Path) -> None:
    """What lossless-claw holds, opened in place: none of its rows was written here."""
    source = path.with_name("source.db")
    agent(source)
    with Archive.open(source, read_only=True) as archive:
        options = TransferOptions(files_dir=str(path.parent / "lcm-files"), plain=True)
        export_lossless_claw(archive, open_vault(str(source), None), path, options)
    for end in ("", "-wal", "-shm"):
        Path(f"{source}{end}").unlink(missing_ok=True)
    with open_engine(path) as engine:
        repair.apply_reindex(engine.archive, vault=engine.vault)  # gives digests to what another program wrote
        engine.append(
            lossless.Session(key="agent:main:main"), [{"role": "user", "content": "And now the deploy here."}]
        )


BUILDERS: dict[str, Callable[[Path], None]] = {"agent": agent, "chat": chat, "foreign": foreign}


@dataclass(frozen=True, slots=True)
class Outputs:
    """What an archive gives: prompts, findings, the lines of an export. `errors` are refusals that say why."""

    prompts: tuple[str, ...]
    found: tuple[str, ...]
    lines: tuple[str, ...]
    errors: tuple[str, ...] = ()

    def differing(self, other: Outputs) -> list[str]:
        """In what two archives differ, and where first."""
        found = []
        for name in ("prompts", "found", "lines", "errors"):
            ours, theirs = getattr(self, name), getattr(other, name)
            for one, another in zip_longest(ours, theirs, fillvalue=""):
                if one != another:
                    same = (n for n, (a, b) in enumerate(zip(one, another, strict=False)) if a != b)
                    at = max(0, next(same, 0) - 60)
                    found.append(f"{name}: {one[at : at + 120]!r} -> {another[at : at + 120]!r}")
                    break
        return found


def outputs(path: Path) -> Outputs:
    """All that prompts, search and export return; a refusal with its reason is one, other exceptions are raised."""
    errors: list[str] = []

    def said(make: Callable[[], str]) -> str:
        try:
            return make()
        except lossless.LosslessError as error:
            errors.append(f"{type(error).__name__}: {error}".replace(str(path.parent), ""))
            return ""

    try:
        with open_engine(path) as engine:
            ids = engine.archive.checks.conversation_ids()
            prompts = [said(partial(_prompt, engine, id_, budget)) for id_ in ids for budget in _BUDGETS]
            found = [said(partial(_found, engine, word)) for word in WORDS]
            found.append(said(partial(_found, engine, PATTERN, "regex")))
            lines = said(partial(_exported, engine, path.parent / "export.jsonl"))
    except lossless.LosslessError as error:
        return Outputs((), (), (), (f"{type(error).__name__}: {error}".replace(str(path.parent), ""),))
    return Outputs(tuple(prompts), tuple(found), tuple(lines.split("\n")), tuple(errors))


def _prompt(engine: lossless.Engine, conversation_id: int, budget: int) -> str:
    conversation = engine.archive.conversations.get(conversation_id)
    made = engine.assemble(conversation, budget=budget, format="anthropic")
    return json.dumps([made.messages, made.system_prompt], ensure_ascii=False, default=str)


def _found(engine: lossless.Engine, pattern: str, mode: GrepMode = "full_text") -> str:
    return str(engine.grep(pattern, mode=mode, all_conversations=True, limit=200))


def _exported(engine: lossless.Engine, target: Path) -> str:
    """The lines of an export without the first and the last, which tell when it was written and sum it up, and
    without the states that running programs rewrite.
    """
    export_archive(engine.archive, engine.vault, target, TransferOptions(overwrite=True))
    lines = target.read_text(encoding="utf-8").replace(str(target.parent), "").splitlines()
    states = tuple(f'{{"type":"{table}"' for table, column in LAWFUL if column == "*")
    return "\n".join(line for line in lines[1:-1] if not line.startswith(states))

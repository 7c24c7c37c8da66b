"""Every verb of surgery and of the doctor on a small archive: what has to be there first, and the deed itself."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lossless
from lossless.compaction.summariser import Summariser
from lossless.llm.completion import Completion
from lossless.maintenance import repair
from lossless.maintenance.surgery import dissolve, merge, rewriting
from lossless.maintenance.surgery.backfill import BackfillOptions, backfill_history
from lossless.testing import VirtualClock
from tests.faults import before_each_statement
from tests.maintenance.surgery_kit import HERE, THERE, roots, rows, settings, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.llm.completion import Prompt

RUN = lossless.Session(key="agent:main:cron:job", id="run-1")


@dataclass(frozen=True, slots=True)
class Verb:
    """One deed: what comes before it, itself, and how many transactions it takes when it does its whole work."""

    prepare: Callable[[lossless.Engine], object]
    operate: Callable[[lossless.Engine], object]
    steps: int = 1


def open_small(path: Path | str, model: Any = None, clock: VirtualClock | None = None) -> lossless.Engine:
    """An engine under which a dozen messages give a graph of two depths."""
    small = settings(
        leaf_chunk_tokens=250, leaf_target_tokens=60, condensed_target_tokens=90, bootstrap_max_tokens=200,
        fresh_tail_count=2, summary_prefix_target_tokens=90,
    )  # fmt: skip
    return lossless.open(path, small, model, clock=clock or VirtualClock(), background=False)


def small(engine: lossless.Engine, session: lossless.Session = HERE, count: int = 14) -> None:
    """A folded conversation of a session."""
    engine.append(session, talk(count, session.key, words=24))
    engine.compact(session, budget=900, force=True)


def write(prompt: Prompt) -> Completion:
    """A model: short words that tell prompts apart."""
    return Completion(f"Words of {len(prompt.user)} letters.\nExpand for details about: {prompt.user[-40:]}", "w/one")


def _two(engine: lossless.Engine) -> None:
    small(engine)
    engine.append(THERE, talk(3, "there"))


def _split(engine: lossless.Engine) -> None:
    small(engine)
    with engine.archive.writing():
        engine.archive.conversations.archive(1, "rollover-fallback", engine.clock())
    engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(3, "later")])


def _spoiled(engine: lossless.Engine) -> None:
    small(engine)
    small(engine, THERE)
    for (id_,) in rows(engine, "SELECT min(summary_id) FROM summaries WHERE depth = 0 GROUP BY conversation_id"):
        with engine.archive.writing():
            engine.archive.database.run("UPDATE summaries SET content = '' WHERE summary_id = ?", (id_,))
            engine.archive.index.put_summary(id_, "")


def _focused(engine: lossless.Engine) -> None:
    small(engine)
    engine.surgery.focus(HERE, "What about the ferry?")


def _finished(engine: lossless.Engine) -> None:
    small(engine)
    small(engine, RUN)
    with engine.archive.writing():
        engine.archive.conversations.archive(2, "cron-rotation", engine.clock())


def _owing(engine: lossless.Engine) -> None:
    small(engine)
    with engine.archive.writing():
        engine.archive.conversations.archive(1, "session-end", engine.clock())
        engine.archive.database.run(
            "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, reason) VALUES (1, 1, 'x')"
        )


def _written(engine: lossless.Engine, work: rewriting.RewritePlan, model: Any = None) -> None:
    writer = replace(engine.loop, summariser=Summariser(engine.settings, model))
    engine.surgery.place_drafts(rewriting.write_drafts(writer, work))


def _repair(engine: lossless.Engine) -> None:
    _written(engine, engine.surgery.plan_repair(1, 9_000)[0])


def _repair_all(engine: lossless.Engine) -> None:
    for id_ in sorted({one[0] for one in repair.find_broken(engine.archive)}):
        _written(engine, engine.surgery.plan_repair(id_, 9_000)[0])


def _rewrite_all(engine: lossless.Engine) -> None:
    _written(engine, engine.surgery.plan_rewrite(1, everything=True), write)


def _clean(engine: lossless.Engine) -> None:
    (work,) = engine.admin.clean_plans("cron_sessions")
    engine.admin.clean(work)


def _close_debt(engine: lossless.Engine) -> None:
    engine.admin.close_debt(engine.admin.close_debt_plan(1))


def _merge_splits(engine: lossless.Engine) -> None:
    for split in merge.find_splits(engine.archive):
        engine.surgery.merge(split.session_key)


def _transplanted(engine: lossless.Engine) -> None:
    _two(engine)
    engine.surgery.transplant(HERE, THERE)


def _merged(engine: lossless.Engine) -> None:
    _split(engine)
    engine.surgery.merge(str(HERE.key))


def _purged(engine: lossless.Engine) -> None:
    small(engine)
    engine.surgery.dissolve(roots(engine, 1)[0], purge=True)


def _rewritten(engine: lossless.Engine) -> None:
    small(engine)
    _rewrite_all(engine)


def _imported(engine: lossless.Engine) -> None:
    engine.append(HERE, talk(14, "import", words=24))


def _fill(engine: lossless.Engine, **how: bool) -> None:
    backfill_history(engine.loop, engine.archive.conversations.get(1), BackfillOptions(may_ask_model=True, **how))


def _refolded(engine: lossless.Engine) -> None:
    small(engine)
    work = dissolve.plan_unfold(engine.archive, 1)
    assert work is not None
    dissolve.apply_unfold(engine.archive, work, engine.clock())


VERBS: dict[str, Verb] = {
    "dissolve": Verb(small, lambda engine: engine.surgery.dissolve(roots(engine, 1)[0])),
    "dissolve --purge": Verb(small, lambda engine: engine.surgery.dissolve(roots(engine, 1)[0], purge=True)),
    "rewrite": Verb(small, _rewrite_all),
    "repair": Verb(_spoiled, _repair),
    "doctor apply": Verb(_spoiled, _repair_all, 2),
    "transplant": Verb(_two, lambda engine: engine.surgery.transplant(HERE, THERE)),
    "merge": Verb(_split, _merge_splits),
    "backfill": Verb(_imported, lambda engine: engine.transcripts.fold_import(engine.archive.conversations.get(1)), 0),
    "backfill --recompact": Verb(small, lambda engine: _fill(engine, recompact=True), 0),
    "backfill --single-root": Verb(_imported, lambda engine: _fill(engine, single_root=True), 0),
    "focus": Verb(small, lambda engine: engine.surgery.focus(HERE, "What about the ferry?")),
    "refocus": Verb(_focused, lambda engine: engine.surgery.focus(HERE)),
    "unfocus": Verb(_focused, lambda engine: engine.surgery.unfocus(HERE)),
    "doctor clean": Verb(_finished, _clean),
    "doctor maintenance": Verb(_owing, _close_debt),
    "undo fold": Verb(small, lambda engine: engine.undo(HERE)),
    "undo dissolve": Verb(_purged, lambda engine: engine.undo(HERE)),
    "undo recompact": Verb(_refolded, lambda engine: engine.undo(HERE)),
    "undo rewrite": Verb(_rewritten, lambda engine: engine.undo(HERE)),
    "undo transplant": Verb(_transplanted, lambda engine: engine.undo(THERE)),
    "undo merge": Verb(_merged, lambda engine: engine.undo(HERE)),
    "undo focus": Verb(_focused, lambda engine: engine.undo(HERE)),
}


def die_at(path: str, verb: str, number: int) -> None:
    """Die in place of a statement that writes, counted from 0."""
    writes = 0

    def die(_count: int, statement: str) -> None:
        nonlocal writes
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE", "COMMIT")):
            if writes == number:
                os.kill(os.getpid(), signal.SIGKILL)
            writes += 1

    with open_small(path, write) as engine, before_each_statement(engine.archive.database, die):
        VERBS[verb].operate(engine)

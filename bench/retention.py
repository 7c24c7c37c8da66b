"""The retention ladder: what is still known after history was folded, without a model. `python -m bench.retention`

Each dialogue is compacted to a share of what it takes in a prompt, as budgets count it. Then facts are asked for:
answers that stand verbatim in few messages. A fact counts (i) when it is in the assembled context, (ii) or in the text
of ONE recall, (iii) or in one expansion of at most 4,000 tokens around the best evidence. Strict: only where the words
come from a message that holds the answer to this question.

The summaries themselves: the share of questions (all but the adversarial ones) whose answer is whole in them, that is
each word of it that carries meaning, and whole in one row; and the share of rows, and of sentences, that say little.
Beside them sentences drawn at random, as many tokens of them.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

import lossless
from bench import locomo
from bench.measure import table, write
from lossless.compaction.extract import EXPAND, LEAST_TERMS, condense, extract
from lossless.compaction.source_text import SourceMessage, SourceSummary, source_message, split_units
from lossless.compaction.summarise import SummarySource, summarise
from lossless.model.budget import budget_tokens
from lossless.model.context import MessageItem, framed_tokens, prompt_tokens
from lossless.model.terms import chunk_terms
from lossless.model.tokens import estimate_tokens
from lossless.recall.expand import ExpandRequest, expand
from lossless.recall.scope import Scope
from lossless.testing import PLANTED, openai_chat, sample_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

#: A dialogue and its messages as a summariser reads them.
_Sourced: TypeAlias = tuple[locomo.Dialogue, list[SourceMessage]]

SHARE = 0.12
SHARE_LIMIT = 0.14
LEAF_SHARES = (0.12, SHARE_LIMIT)
RECALL_TOKENS = 2_000
EXPAND_TOKENS = 4_000
#: An answer that stands in more messages than this is no fact of one of them.
FEW = 3
#: How history is folded here: into so many leaves, with room for the tail and the frame of each leaf; budgets count so
#: many tokens for each token of a leaf.
_LEAVES = 3
_TAIL_TOKENS = 100
_FRAME_TOKENS = 100
_OVER_COUNT = 1.25
_WHOLE = 10_000_000
_AROUND = 16
_SHORTEST = 3
ROUNDS = (10, 30, 50, 100)
BUDGETS = (128_000, 32_000)
SPARE_MESSAGES = 4_000
#: Shares of the history budget at which a sweep stops; 0 folds all it can.
FRACTIONS = (0.0, 0.25, 0.4, 0.5, 0.6)
#: Seed figures for conversations of so many rounds: compression and "retention"; no method is given for them.
SEED = {10: (27, 98), 30: (65, 96), 50: (78, 94), 100: (88, 92)}


@dataclass(frozen=True, slots=True)
class Asked:
    """A fact: how it is asked for, its words, and the texts that hold it."""

    question: str
    answer: str
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rungs:
    """Whether a fact is there on each rung, strictly and at all."""

    strict: tuple[bool, bool, bool]
    loose: tuple[bool, bool, bool]


@dataclass(frozen=True, slots=True)
class Kept:
    """A conversation after it was folded."""

    raw_tokens: int
    tokens: int
    #: The same in characters, which no estimate changes.
    raw_chars: int
    chars: int
    rungs: tuple[Rungs, ...]
    window: tuple[bool, ...]


def plain(text: str) -> str:
    """A text as it is compared: lower case, single blanks."""
    return " ".join(text.casefold().split())


def holds(text: str, fact: Asked, *, strict: bool) -> bool:
    """Whether a text has the answer; strictly, with words around it that stand around it in a message that holds it."""
    shown = plain(text)
    if not strict:
        return fact.answer in shown
    for found in re.finditer(re.escape(fact.answer), shown):
        for left, right in ((_AROUND, _AROUND), (_AROUND, 0), (0, _AROUND)):
            piece = shown[max(0, found.start() - left) : found.end() + right]
            if any(piece.strip() in gold for gold in fact.gold):
                return True
    return False


def ladder(fact: Asked, texts: Sequence[str]) -> Rungs:
    """Each rung holds what the ones before it hold."""

    def climb(*, strict: bool) -> tuple[bool, bool, bool]:
        there = [holds(text, fact, strict=strict) for text in texts]
        return there[0], any(there[:2]), any(there)

    return Rungs(climb(strict=True), climb(strict=False))


def fold(engine: lossless.Engine, session: lossless.Session, budget: int) -> tuple[str, int]:
    """Fold all but the fresh tail and assemble within the budget: the text that a model would see, and its tokens."""
    while engine.compact(session, budget=budget, force=True).compacted:
        pass
    made = engine.assemble(session, budget=budget)
    return "\n".join(str(message.get("content") or "") for message in made.messages), made.tokens


def settings_for(sizes: Sequence[int], budget: int) -> lossless.Settings:
    """A few leaves of messages of these sizes, so long that all stay in the budget, beside a short fresh tail."""
    leaf = ((budget - _TAIL_TOKENS) // _LEAVES - _FRAME_TOKENS) / _OVER_COUNT
    return lossless.Settings(
        fresh_tail_count=4,
        fresh_tail_max_tokens=_TAIL_TOKENS,
        leaf_chunk_tokens=max(200, sum(sizes) // _LEAVES + max(sizes)),
        leaf_target_tokens=max(40, int(leaf)),
        leaf_min_fanout=2,
        condensed_min_fanout=1_000,
        condensed_min_fanout_hard=1_000,
        sweep_max_depth=0,
        max_sweep_iterations=100,
    )


def measure(session: lossless.Session, messages: Sequence[Any], facts: Sequence[Asked], share: float) -> Kept:
    """Store a conversation, fold it to a share of its size, and climb the ladder for each fact."""
    with lossless.open(":memory:", background=False) as plain_engine:
        plain_engine.append(session, messages)
        whole = plain_engine.assemble(session, budget=_WHOLE).tokens
        sizes = [item.tokens for item in plain_engine.archive.context.items(1)]
        newest = [stored.message.content for stored in plain_engine.archive.messages.in_order(1, limit=100_000)]
    budget = round(whole * share)
    with lossless.open(":memory:", settings_for(sizes, budget), background=False) as engine:
        engine.append(session, messages)
        context, left = fold(engine, session, budget)
        now = engine.archive.messages.get(1).created_at
        opened = partial(_opened, engine, session, now)
        rungs = tuple(ladder(fact, (context, *opened(fact.question))) for fact in facts)
    window = _window(newest, budget)
    kept = tuple(holds(window, fact, strict=True) for fact in facts)
    return Kept(whole, left, sum(map(len, newest)), len(context), rungs, kept)


def _opened(engine: lossless.Engine, session: lossless.Session, now: datetime, question: str) -> tuple[str, str]:
    """The text of one recall, and of one expansion around its best evidence."""
    found = engine.recall(question, session=session, max_tokens=RECALL_TOKENS)
    shown = "\n".join(item.text for item in found.evidence)
    if not found.evidence:
        return shown, ""
    best = found.evidence[0]
    request = ExpandRequest(token_cap=EXPAND_TOKENS, around=best.id)
    scope = Scope("conversation", (best.conversation_id,))
    return shown, str(expand(engine.archive, request, scope, now))


def _window(texts: Sequence[str], budget: int) -> str:
    """The newest texts that fit: what is left of history without summaries."""
    kept: list[str] = []
    for text in reversed(texts):
        budget -= framed_tokens(budget_tokens(text))
        if budget < 0:
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def facts_of(dialogue: locomo.Dialogue) -> list[Asked]:
    """The questions whose answer stands verbatim in few messages, one of them the right one."""
    texts = {turn.id: plain(turn.text) for turn in dialogue.turns}
    found = []
    for question in dialogue.questions:
        answer = plain(question.answer).strip(" .")
        having = {id_ for id_, text in texts.items() if answer in text}
        gold = having & question.gold
        if len(answer) >= _SHORTEST and question.category != 5 and gold and len(having) <= FEW:
            found.append(Asked(question.text, answer, tuple(texts[id_] for id_ in sorted(gold))))
    return found


def long_dialogues(path: Path) -> list[dict[str, object]]:
    """The ladder on dialogues in the format of LoCoMo."""
    kept = []
    for dialogue in locomo.load(path):
        messages = [turn.incoming for turn in dialogue.turns]
        kept.append(measure(dialogue.session, messages, facts_of(dialogue), SHARE))
    rungs = [rung for one in kept for rung in one.rungs]
    raw, left = sum(one.raw_tokens for one in kept), sum(one.tokens for one in kept)
    chars = sum(one.chars for one in kept) / sum(one.raw_chars for one in kept)
    rows: list[dict[str, object]] = []
    for name, chosen in (("strict", [rung.strict for rung in rungs]), ("at all", [rung.loose for rung in rungs])):
        shares = [_percent(there) for there in zip(*chosen, strict=True)]
        rows.append(
            {
                "what": f"{len(kept)} dialogues, {name}",
                "facts": len(rungs),
                "compression %": round(100 - 100 * left / raw, 1),
                "in characters %": round(100 - 100 * chars, 1),
                "(i) context": shares[0],
                "(ii) + recall": shares[1],
                "(iii) + expand": shares[2],
                "window": _percent([there for one in kept for there in one.window]) if name == "strict" else None,
                "aim": "35 / 84 / 90" if name == "strict" else "",
            }
        )
    return rows


def summaries(path: Path) -> list[dict[str, object]]:
    """What the summaries of dialogues hold: leaves as they are by default, and at shares of the source; condensed."""
    dialogues = [(dialogue, _source(dialogue)) for dialogue in locomo.load(path)]
    rows = [_summary_row("leaves, default settings", dialogues, _leaves(dialogues, None))]
    rows += [_summary_row(f"leaves, {share:.0%}", dialogues, _leaves(dialogues, share)) for share in LEAF_SHARES]
    rows.append(_summary_row("condensed, half of small leaves", dialogues, _condensed(dialogues)))
    return [*rows, _summary_row("sentences at random", dialogues, _at_random(dialogues, SHARE_LIMIT))]


def _source(dialogue: locomo.Dialogue) -> list[SourceMessage]:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(dialogue.session, [turn.incoming for turn in dialogue.turns])
        return [source_message(stored) for stored in engine.archive.messages.in_order(1, limit=100_000)]


def _chunks(lines: Sequence[SourceMessage], limit: int) -> list[list[SourceMessage]]:
    """The messages of each leaf, as a sweep cuts them."""
    chunks: list[list[SourceMessage]] = [[]]
    for line in lines:
        if chunks[-1] and sum(known.tokens for known in chunks[-1]) + line.tokens > limit:
            chunks.append([])
        chunks[-1].append(line)
    return chunks


def _leaf(lines: Sequence[SourceMessage], share: float | None) -> str:
    size = sum(line.tokens for line in lines)
    if share is not None:
        return extract(lines, int(share * size), source_tokens=size) or ""
    written = summarise(SummarySource(tuple(lines), tokens=size))
    return written.text if written else ""


def _leaves(dialogues: Sequence[_Sourced], share: float | None) -> list[str]:
    limit = lossless.Settings().leaf_chunk_tokens
    return ["\n".join(_leaf(chunk, share) for chunk in _chunks(lines, limit)) for _, lines in dialogues]


def _condensed(dialogues: Sequence[_Sourced]) -> list[str]:
    """One level up: leaves of a quarter of the usual size, condensed to half of their size."""
    texts = []
    for _, lines in dialogues:
        chunks = _chunks(lines, lossless.Settings().leaf_chunk_tokens // 4)
        sections = [
            SourceSummary(chunk[0].created_at, chunk[-1].created_at, _leaf(chunk, SHARE_LIMIT)) for chunk in chunks
        ]
        texts.append(condense(sections, sum(section.tokens for section in sections) // 2) or "")
    return texts


def _at_random(dialogues: Sequence[_Sourced], share: float) -> list[str]:
    texts = []
    for _, lines in dialogues:
        units = [unit for line in lines for unit in split_units(line.text)]
        Random(0).shuffle(units)
        room = share * sum(line.tokens for line in lines)
        sizes = accumulate(estimate_tokens(unit) for unit in units)
        texts.append("\n".join(unit for unit, size in zip(units, sizes, strict=True) if size <= room))
    return texts


def _summary_row(what: str, dialogues: Sequence[_Sourced], texts: Sequence[str]) -> dict[str, object]:
    whole, in_row = [], []
    for (dialogue, _), text in zip(dialogues, texts, strict=True):
        rows = [_terms(row) for row in text.splitlines()]
        known = frozenset[str]().union(*rows)
        for answer in (_terms(asked.answer) for asked in dialogue.questions if asked.category != 5):
            whole.append(bool(answer) and answer <= known)
            in_row.append(bool(answer) and any(answer <= row for row in rows))
    said = [
        re.sub(r"^(?:user: )?[A-Z]\w+: ", "", row)
        for text in texts
        for row in text.splitlines()
        if not row.startswith(("[", "Files:", EXPAND))
    ]
    spans = [span for row in said for span in row.split(" … ")]
    source = sum(line.tokens for _, lines in dialogues for line in lines)
    return {
        "what": what,
        "of source %": round(100 * sum(map(estimate_tokens, texts)) / source, 1),
        "answers": len(whole),
        "whole %": _percent(whole),
        "whole in a row %": _percent(in_row),
        "rows": len(said),
        "rows that say little %": _percent(len(_terms(row)) < LEAST_TERMS for row in said),
        "sentences that say little %": _percent(len(_terms(span)) < LEAST_TERMS for span in spans),
    }


def _terms(text: str) -> frozenset[str]:
    """The words of a text that carry meaning."""
    return chunk_terms([" ".join(text.split())]).terms[0] - {""}


def rounds() -> list[dict[str, object]]:
    """Compression and retention by the number of rounds, beside the seed's figures."""
    rows: list[dict[str, object]] = []
    whole: list[Any] = list(openai_chat(sample_conversation(2_000)))
    for count in ROUNDS:
        messages = _rounds(whole, count)
        texts = [plain(str(message.get("content") or "")) for message in messages]
        facts = [
            Asked(fact.question, plain(fact.answer), tuple(text for text in texts if plain(fact.answer) in text))
            for fact in PLANTED
            if fact.seq <= len(messages)
        ]
        kept = measure(lossless.Session(key="rounds"), messages, facts, 1 - SEED[count][0] / 100)
        shares = [_percent(there) for there in zip(*(rung.loose for rung in kept.rungs), strict=True)]
        rows.append(
            {
                "rounds": count,
                "raw tokens": kept.raw_tokens,
                "compacted": kept.tokens,
                "compression %": round(100 - 100 * kept.tokens / kept.raw_tokens, 1),
                "in characters %": round(100 - 100 * kept.chars / kept.raw_chars, 1),
                "facts": len(facts),
                "in context %": shares[0],
                "+ recall %": shares[1],
                "+ expand %": shares[2],
                "seed": f"{SEED[count][0]} % / {SEED[count][1]} %",
            }
        )
    return rows


def spare_room() -> list[dict[str, object]]:
    """What `sweepTargetFraction` costs and gains while a conversation grows, turn by turn."""
    messages: list[Any] = list(openai_chat(sample_conversation(SPARE_MESSAGES)))
    return [_with_target(fraction, budget, messages) for budget in BUDGETS for fraction in FRACTIONS]


def _with_target(fraction: float, budget: int, messages: Sequence[Any]) -> dict[str, object]:
    """Each user message begins a turn, before which the context is looked at as the model would get it."""
    settings = lossless.Settings(sweep_target_fraction=fraction, proactive_threshold_compaction_mode="inline")
    starts = [place for place, message in enumerate(messages) if message["role"] == "user"]
    sweeps, sizes, verbatim = 0, list[int](), list[int]()
    ids: list[str] = []
    with lossless.open(":memory:", settings, background=False) as engine:
        for start, stop in pairwise([*starts, len(messages)]):
            done = engine.after_turn("spare", new_messages=messages[start:stop], budget=budget).compaction
            if done is not None and done.compacted:
                sweeps += 1
                ids += done.summary_ids
            items = engine.archive.context.items(1)
            sizes.append(prompt_tokens(items))
            verbatim.append(prompt_tokens([item for item in items if isinstance(item, MessageItem)]))
        made = [engine.archive.summaries.get(id_) for id_ in ids]
    later = slice(len(starts) // 2, None)
    return {
        "budget": budget,
        "sweepTargetFraction": fraction,
        "turns": len(starts),
        "sweeps": sweeps,
        "calls": len(made),
        "of them condensed": sum(summary.depth > 0 for summary in made),
        "context, mean": round(fmean(sizes[later])),
        "verbatim, mean": round(fmean(verbatim[later])),
        "verbatim, least": min(verbatim[later]),
        "verbatim %": round(100 * fmean(verbatim[later]) / fmean(sizes[later]), 1),
    }


def _rounds(messages: Sequence[Any], count: int) -> list[Any]:
    """The beginning of a conversation up to the end of its `count`-th round."""
    starts = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return list(messages[: starts[count] if count < len(starts) else len(messages)])


def _percent(there: Iterable[bool]) -> float:
    values = list(there)
    return round(100 * sum(values) / len(values), 1) if values else 0.0


def main() -> None:
    """Print both tables and keep them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=locomo.DEFAULT, help="dialogues in the format of LoCoMo")
    path: Path = parser.parse_args().file
    runs: list[tuple[str, str, Callable[[], list[dict[str, object]]]]] = [
        ("retention-rounds", "sample conversation", rounds),
        ("retention-spare-room", "sample conversation", spare_room),
        ("retention-summaries", path.name, partial(summaries, path)),
        ("retention", path.name, partial(long_dialogues, path)),
    ]
    for name, source, run in runs:
        rows = run()
        table(rows, f"{name}: {source}")
        write(name, rows, {"input": source, "seed": None, "tuned": "the development half is what ranking was tuned on"})


if __name__ == "__main__":
    main()

"""`lcm import openclaw|claude-code|codex|pi|jsonl|chatgpt`: transcripts of other programs become conversations."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.cli.options import since_of
from lossless.cli.transfer import bring_archive
from lossless.errors import BadInput, LosslessError
from lossless.model.conversations import Session
from lossless.transcripts.kinds import KINDS as READERS
from lossless.transcripts.read import other_kind
from lossless.transfer.archive_lines import is_archive
from lossless.transfer.finding import find_files, named_place
from lossless.transfer.transcripts import KINDS, Outcome, bring_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.cli.invocation import Invocation
    from lossless.engine import Engine

#: How many conversations are listed; the others are counted.
_SHOWN = 200
#: Files of at most so many bytes are stored together, so many in one transaction. In one so small is no history that
#: is folded at once.
_SMALL, _TOGETHER = 12_000, 50
_WHERE = {
    "openclaw": "OpenClaw sessions, such as ~/.openclaw/agents/main/sessions",
    "claude-code": "Claude Code projects, such as ~/.claude/projects",
    "codex": "Codex rollouts, such as ~/.codex/sessions",
    "pi": "pi sessions, such as ~/.pi/agent/sessions",
    "jsonl": "JSON lines or arrays of messages, or one file of `lcm export jsonl`",
    "chatgpt": "a ChatGPT export, conversations.json",
}


def _run(
    invocation: Invocation,
    kind: str,
    paths: tuple[Path, ...],
    since: str | None,
    limit: int | None,
    is_real: bool,
    dry_run: bool,
    no_summaries: bool,
    again: bool,
) -> None:
    if is_real and dry_run:
        raise BadInput("--apply and --dry-run contradict each other; give one of them")
    for path in paths:
        named_place(path)
    if kind == "jsonl" and len(paths) == 1 and is_archive(paths[0]):
        bring_archive(invocation, str(paths[0]), dry_run=not is_real)
        return
    from_when = None if since is None else since_of("--since", since, datetime.now(UTC))
    there = find_files(kind, paths, since=from_when)
    chosen = there.files if limit is None else there.files[:limit]
    others = {file: other for file in chosen if (other := other_kind(file, kind)) is not None}
    own = [file for file in chosen if file not in others]
    found = (
        _import(invocation, kind, own, fold=not no_summaries, again=again)
        if is_real
        else _look(invocation, kind, own, again=again)
    )
    named = {path.absolute() for path in paths if path.is_file()}
    strange = [_strange(file, kind, other, is_named=file in named) for file, other in others.items()]
    unseen = [Outcome(place, Session(id=place.name), "error", reason=why) for place, why in there.unseen]
    failed = [item for item in (*found, *strange, *unseen) if item.status == "error"]
    found = [*failed, *(item for item in (*found, *strange) if item.status != "error")]
    left_out = len(there.files) - len(chosen)
    data: dict[str, Any] = {"kind": kind, "applied": is_real, "files": len(chosen), "filesLeftOut": left_out}
    data["otherKinds"] = dict(Counter(others.values()))
    invocation.emit(
        "import", data | _counts(found) | {"items": [_item(item) for item in found[:_SHOWN]]}, ok=not failed
    )
    if failed:
        raise click.exceptions.Exit(failures.INTERNAL)


def _strange(file: Path, kind: str, other: str, *, is_named: bool) -> Outcome:
    """A file of another kind: what a folder holds is passed over, but whoever names it is told."""
    reason = f"it is no transcript of kind {kind}; it looks like one for `lcm import {other}`"
    return Outcome(file, Session(id=file.name), "error" if is_named else "skipped", reason=reason)


def _look(invocation: Invocation, kind: str, files: list[Path], *, again: bool) -> list[Outcome]:
    from lossless.transfer.rehearsal import rehearsing

    there = Path(invocation.file_path).exists()
    with (
        invocation.archive() if there else nullcontext() as archive,
        rehearsing(archive, invocation.loaded.settings) as rehearsal,
        _reading(invocation, "Looking at", files) as advance,
    ):
        return [item for file in files for item in rehearsal.look_at(kind, file, again=again, progress=advance)]


def _import(invocation: Invocation, kind: str, files: list[Path], *, fold: bool, again: bool) -> list[Outcome]:
    with _reading(invocation, "Importing", files) as advance, invocation.engine() as engine:
        bring = partial(bring_in, engine, kind, fold=fold, again=again)
        return [item for group in _grouped(kind, files) for item in _together(engine, bring, group, advance)]


def _size(file: Path) -> int:
    """The size of a file; 0 for one that is gone, of which reading it will tell."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _grouped(kind: str, files: Iterable[Path]) -> Iterator[list[Path]]:
    """The files in their order: small ones together, each larger one alone."""
    group: list[Path] = []
    for file in files:
        is_small = sum(map(_size, (file, *READERS[kind].side_files(file)))) <= _SMALL
        if group and (not is_small or len(group) >= _TOGETHER):
            yield group
            group = []
        if is_small:
            group.append(file)
        else:
            yield [file]
    if group:
        yield group


class _NotTogether(Exception):
    """A file of a group could not be stored."""


def _together(
    engine: Engine,
    bring: Callable[..., Iterator[Outcome]],
    files: list[Path],
    progress: Callable[[int], None] | None,
) -> list[Outcome]:
    """Import files in one transaction; one by one when any of them fails, so that no half of it is stored."""
    if len(files) > 1:
        try:
            with engine.archive.writing():
                found = [item for file in files for item in bring(file)]
                if any(item.status == "error" for item in found):
                    raise _NotTogether
        except (_NotTogether, LosslessError):
            pass
        else:
            if progress:
                progress(sum(map(_size, files)))
            return found
    return [item for file in files for item in bring(file, progress=progress)]


def _reading(invocation: Invocation, what: str, files: list[Path]) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import reading

    return reading(what, sum(map(_size, files)))


def _counts(found: Iterable[Outcome]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for item in found:
        counts[item.status] = counts.get(item.status, 0) + 1
    messages, pruned = sum(item.messages for item in found), sum(item.pruned for item in found)
    return {"conversations": counts, "messages": messages, "pruned": pruned}


def _item(item: Outcome) -> dict[str, Any]:
    return {
        "path": str(item.path),
        "sessionKey": item.session.key,
        "sessionId": item.session.id,
        "status": item.status,
        "messages": item.messages,
        "pruned": item.pruned,
        "conversationId": item.conversation_id,
        "title": item.title,
        "reason": item.reason,
        "problems": list(item.problems),
    }


def _command(kind: str) -> click.Command:
    @click.command(kind, cls=Command, help=_HELP.format(where=_WHERE[kind]))
    @click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
    @click.option("--since", metavar="TIME", help="Only files that changed since then: 2026-07-01, or 30d.")
    @click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many files, the oldest first.")
    @click.option("--apply", "is_real", is_flag=True, help="Store them; without this, only say what would be stored.")
    @click.option("--dry-run", is_flag=True, help="Only say what would be stored, as without --apply.")
    @click.option("--no-summaries", is_flag=True, help="Leave the folding of older history to `lcm backfill`.")
    @click.option("--again", is_flag=True, help="Bring back what was deleted of it with `lcm prune`, too.")
    @click.pass_obj
    def run(invocation: Invocation, /, **given: Any) -> None:
        _run(invocation, kind, **given)

    return run


_HELP = """Store transcripts as conversations: {where}.

    A folder is searched. Without --apply nothing is stored. An import that was stopped goes on where it was, a second
    one changes nothing; lines that cannot be read are named by their numbers. What was deleted with `lcm prune` stays
    away, and is counted, unless --again is given. The newest part of each conversation stays as it is, the older part
    is folded at once, without a model.
    """

openclaw, claude_code, codex, pi, jsonl, chatgpt = (_command(kind) for kind in KINDS)

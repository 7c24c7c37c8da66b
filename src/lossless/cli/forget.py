"""`lcm forget`: removing a phrase, messages or a session for good."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.backups import agrees
from lossless.cli.commands import Command, text
from lossless.cli.options import bad, wrong
from lossless.cli.output import shape
from lossless.engine import Engine
from lossless.errors import BadInput, NotFound
from lossless.model.conversations import Session
from lossless.model.masking import check_phrase

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.lifecycle.forget import ForgetReport
    from lossless.lifecycle.forgetting import Touched

_ID = re.compile(r"msg#([1-9]\d{0,17})", re.ASCII)
#: What is meant as an id, though there can be no such message.
_LIKE_ID = re.compile(r"msg#[-+]?\d*", re.IGNORECASE)
#: How many messages are listed; the others are counted.
_SHOWN = 50


@click.command("forget", cls=Command)
@click.argument("words", metavar="[WORDS|ID]...", type=text, nargs=-1)
@click.option("--from", "source", metavar="FILE", type=text, help="Phrases, one a line; `-` reads standard input.")
@click.option("--session", "sessions", metavar="NAME", type=text, multiple=True, help="All words of this session.")
@click.option("--apply", "is_real", is_flag=True, help="Do it without asking; without this, only say what would go.")
@click.pass_context
def forget(
    ctx: click.Context, words: tuple[str, ...], source: str | None, sessions: tuple[str, ...], is_real: bool
) -> None:
    """Remove a text for good: WORDS as one phrase, or a message by its ID (msg#12).

    A phrase is cut out where it stands, exactly as it is written, and leaves `[forgotten]`; of a message nothing else
    stays. It leaves rows, earlier wordings, payloads, search indexes, summaries, the log and the backups beside the
    archive, and a host that sends it again does not bring it back. No backup is made. Without --apply nothing changes,
    and at a terminal you are asked. Exit code 1 when a place could not be reached; each is named. `--from` keeps the
    words out of the shell's history.
    """
    invocation: Invocation = ctx.obj
    words = tuple(word.strip() for word in words)
    ids = [int(found[1]) for word in words if (found := _ID.fullmatch(word))]
    for word in words:
        if _LIKE_ID.fullmatch(word) and not _ID.fullmatch(word):
            raise bad("WORDS", f"{word!r} is no id of a message, such as msg#12")
    if ids and len(ids) < len(words):
        raise wrong("Give words or ids of messages, not both.")
    phrases = [*([" ".join(words)] if words and not ids else []), *_lines(source)]
    if not (phrases or ids or sessions):
        raise wrong("Say what to forget: words, msg#12, --from or --session.")
    for phrase in phrases:
        try:
            check_phrase(phrase)
        except BadInput as error:
            raise bad("WORDS", str(error)) from None
    named = [Session(key=name) for name in sessions]
    asked: dict[str, Any] = {"message_ids": ids, "sessions": named}
    report = _planned(invocation, phrases, asked)
    if not is_real and not report.is_nothing and sys.stdin.isatty():
        invocation.emit("forget", _shown(report, applied=False))
        is_real = agrees("Forget it for good?")
        if not is_real:
            return
    if is_real:
        report = _apply(invocation, phrases, asked)
    invocation.emit("forget", _shown(report, applied=is_real), ok=not (is_real and report.left))
    ctx.exit(failures.INTERNAL if is_real and report.left else failures.OK)


def _lines(source: str | None) -> list[str]:
    return [] if source is None else phrases_in(source, "--from")


def phrases_in(source: str, option: str) -> list[str]:
    """The phrases of a file, one a line, without the space around them and a byte order mark; blank lines are none."""
    try:
        with click.open_file(source, encoding="utf-8") as file:
            found = [line.strip() for line in file.read().removeprefix("\ufeff").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise bad(option, f"{source!r} cannot be read: {reason}") from None
    if phrases := list(filter(None, found)):
        return phrases
    raise bad(option, f"{source!r} holds no phrase")


def _planned(invocation: Invocation, phrases: list[str], asked: dict[str, Any]) -> ForgetReport:
    with invocation.archive() as archive:
        engine = Engine(archive, invocation.loaded.settings, background=False)
        return _known(lambda: engine.admin.forget_plan(phrases, **asked))


def _apply(invocation: Invocation, phrases: list[str], asked: dict[str, Any]) -> ForgetReport:
    with invocation.engine() as engine:
        total = engine.archive.care.counts().messages
        with _counting(invocation, total) as advance:
            return _known(lambda: engine.admin.forget(phrases, **asked, progress=advance))


def _known(act: Any) -> ForgetReport:
    try:
        report: ForgetReport = act()
    except NotFound as error:
        raise failures.fail("not_found", f"{error}.", failures.NOT_FOUND) from None
    return report


def _shown(report: ForgetReport, *, applied: bool) -> dict[str, Any]:
    return {
        "applied": applied,
        "found": not report.is_nothing,
        **_touched(report.archive),
        "backups": [{"path": str(path), **_touched(touched)} for path, touched in report.backups],
        "left": list(report.left),
        "resumed": report.resumed,
    }


def _touched(touched: Touched) -> dict[str, Any]:
    data = shape(touched)
    return {
        "messages": len(touched.message_ids),
        "messageIds": list(touched.message_ids[:_SHOWN]),
        **{name: data[name] for name in ("emptied", "versions", "files", "rewritten", "cut", "elsewhere")},
    }


def _counting(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Looking at messages", total)

"""`lcm sync`: the host's whole window; what is new in it is stored."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

import click

from lossless.cli import failures
from lossless.cli.append import open_input, session_of, session_options
from lossless.cli.commands import Command, text
from lossless.cli.lines import BadLine, parse, read_lines, unwrap
from lossless.errors import BadMessage

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.model.messages import Incoming, JsonObject


@click.command("sync", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@session_options
@click.option("--key", type=text, help="A name for this window: the same name twice is stored once.")
@click.pass_obj
def sync(invocation: Invocation, file: str, session_key: str | None, session_id: str | None, key: str | None) -> None:
    """Store what a whole window adds: a JSON array of messages, or JSON lines, from FILE or standard input.

    The window is the host's whole current list. Showing the same one again changes nothing; where the host went
    on differently, what it left stays stored and leaves the context. A window that cannot be read is not stored
    at all.
    """
    session = session_of(session_key, session_id)
    with open_input(file) as stream:
        window = read_window(stream)
    with invocation.engine() as engine:
        try:
            report = engine.sync(session, window, key=key)
        except BadMessage as error:
            raise _bad(f"Message {(error.index or 0) + 1}", f"{error.field} {error.reason}".strip()) from error
    data = {
        "conversationId": report.conversation_id,
        "messages": len(window),
        "stored": report.stored,
        "replayed": report.replayed,
        "stamped": report.stamped,
        "revised": report.revised,
        "likely": report.likely,
        "ambiguous": report.ambiguous,
        "abandoned": report.abandoned,
        "cause": report.cause,
        "quarantineId": report.quarantine_id,
        "reason": report.blocked,
        "skipped": len(report.skipped),
        "skippedReasons": dict(Counter(skip.reason[:120] for skip in report.skipped).most_common(20)),
    }
    invocation.emit("sync", data)


def read_window(file: BinaryIO) -> list[Incoming | JsonObject]:
    """The messages of a window, an array or lines."""
    data = file.read()
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        try:
            values = parse(data)
        except ValueError as error:
            raise _bad("The window", str(error)) from None
        return [_message(number, value) for number, value in enumerate(values, 1)]
    window: list[Incoming | JsonObject] = []
    for line in read_lines(BytesIO(data), None):
        if isinstance(line, BadLine):
            raise _bad(line.where.opening, line.reason)
        window.append(line.item)
    return window


def _message(number: int, value: object) -> Incoming | JsonObject:
    try:
        return unwrap(value)
    except ValueError as error:
        raise _bad(f"Message {number}", str(error)) from None


def _bad(where: str, reason: str) -> failures.Failure:
    return failures.fail("bad_message", f"{where}: {reason}.", failures.BAD_ARGUMENTS, hint="Nothing was stored.")

"""The `lcm` command: reads its arguments, runs one command, turns every outcome into an exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from lossless.cli import failures
from lossless.cli.commands import Entry, LazyGroup
from lossless.cli.failures import Failure, Outcome, outcome_of
from lossless.cli.invocation import Invocation
from lossless.errors import LosslessError


class Root(LazyGroup):
    """The command itself."""

    def main(self, *positional: Any, **more: Any) -> Any:
        """Run one command and leave: no error of the user's making ends in a traceback."""
        given = more.pop("args", positional[0] if positional else None)
        arguments = [str(argument) for argument in (sys.argv[1:] if given is None else given)]
        invocation = Invocation()
        more |= {"standalone_mode": False, "obj": invocation, "prog_name": "lcm"}
        try:
            code = super().main(arguments or ["--help"], **more)
            sys.stdout.flush()
        except (LosslessError, Failure, click.ClickException) as error:
            code = _failed(outcome_of(error), invocation, arguments)
        except (KeyboardInterrupt, click.Abort):
            code = _failed(Outcome("interrupted", "Interrupted.", failures.INTERRUPTED), invocation, arguments)
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = failures.INTERNAL
        sys.exit(code if isinstance(code, int) else failures.OK)


def _failed(outcome: Outcome, invocation: Invocation, arguments: list[str]) -> int:
    invocation.format = invocation.format or _format_in(arguments)
    failures.show(outcome, as_json=invocation.as_json, pretty=invocation.pretty)
    return outcome.exit_code


def _format_in(arguments: list[str]) -> str | None:
    """The format that was asked for, when the arguments could not be read."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = argument.partition("=")
        if name == "--format" and (value or following) in ("json", "table"):
            return value or following
    return None


def _unexpected(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """One line for what should never happen; the whole story with LCM_DEBUG=1."""
    if os.environ.get("LCM_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    hint = "Run it again with LCM_DEBUG=1 to see where, and please report it."
    outcome = Outcome("internal", f"Unexpected {kind.__name__}.", failures.INTERNAL, {}, hint)
    _failed(outcome, Invocation(), sys.argv[1:])


cli = Root(
    "lcm",
    help="Keep every word of agent conversations, and find any of it again.",
    entries={
        "status": Entry("lossless.cli.status:status", "How much is kept, and whether anything is lost on the way."),
        "conversations": Entry("lossless.cli.conversations:conversations", "List conversations, or show one."),
        "messages": Entry("lossless.cli.messages:messages", "List messages, show one, or show the fresh tail."),
        "summaries": Entry("lossless.cli.summaries:summaries", "List summaries, or show one with its sources."),
        "grep": Entry("lossless.cli.grep:grep", "Find words, or any text, in messages and summaries."),
        "recall": Entry("lossless.cli.recall:recall", "Gather what was said about a question."),
        "describe": Entry("lossless.cli.describe:describe", "Open a summary, a message or a stored file by its id."),
        "expand": Entry("lossless.cli.expand:expand", "Read what summaries were made of."),
        "ask": Entry("lossless.cli.ask:ask", "Have a question answered, with the ids that carry the answer."),
        "append": Entry("lossless.cli.append:append", "Store new messages."),
        "sync": Entry("lossless.cli.sync:sync", "Store what a whole window adds."),
        "context": Entry("lossless.cli.context:context", "Show what the model sees now, or print the payload."),
        "compact": Entry("lossless.cli.compact:compact", "Fold older history into summaries now."),
        "worker": Entry("lossless.cli.worker:worker", "Pay the sweeps that were put off."),
        "debt": Entry("lossless.cli.debt:debt", "List the sweeps that were put off, and why they wait."),
        "pin": Entry("lossless.cli.pins:pin", "Keep words in every prompt, or list what is kept."),
        "unpin": Entry("lossless.cli.pins:unpin", "Take a pin away."),
        "cost": Entry("lossless.cli.cost:cost", "Show what summaries cost, and what they save."),
        "model": Entry("lossless.cli.model:model", "Say which models write summaries, and try them."),
        "new": Entry("lossless.cli.sessions:new", "Begin afresh in the same conversation."),
        "reset": Entry("lossless.cli.sessions:reset", "Close a conversation and begin another."),
        "stub": Entry("lossless.cli.stub:stub", "Give large answers of tools a file of their own."),
        "files": Entry("lossless.cli.files:files", "List stored files, show one, or delete what no row knows."),
        "verify": Entry("lossless.cli.verify:verify", "Prove that everything stored is there and reachable."),
        "adopt": Entry("lossless.cli.adopt:adopt", "Drop lossless-claw's own search tables to free their room."),
        "config": Entry("lossless.cli.config:config", "Show the settings, or set one."),
    },
)


def main() -> None:
    """The entry point."""
    sys.excepthook = _unexpected
    cli()


if __name__ == "__main__":
    main()

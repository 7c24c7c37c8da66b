"""The `lcm` command: reads its arguments, runs one command, turns every outcome into an exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import click

from lossless.cli import failures
from lossless.cli.commands import CommandEntry, Invocation, LazyGroup
from lossless.cli.failures import CommandFailed, ErrorEnvelope, error_envelope
from lossless.errors import LosslessError

#: What writing to a full disk, a closed terminal or beyond a limit comes to.
_OUTPUT_FAILURES = frozenset((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG))


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
        except (LosslessError, CommandFailed, click.ClickException) as error:
            code = _failed(error_envelope(error), invocation, arguments)
        except (KeyboardInterrupt, click.Abort) as error:
            if error.__cause__ is None and sys.stderr.isatty():  # the line of a question is not ended yet
                click.echo(err=True)
            code = _failed(ErrorEnvelope("interrupted", "Interrupted.", failures.INTERRUPTED), invocation, arguments)
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = failures.INTERNAL
        except OSError as error:
            if error.filename is not None or error.errno not in _OUTPUT_FAILURES:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            message = f"The answer cannot be written: {error.strerror}."
            invocation.format = invocation.format or "table"
            code = _failed(ErrorEnvelope("output", message, failures.INTERNAL), invocation, arguments)
        sys.exit(code if isinstance(code, int) else failures.OK)


def _failed(outcome: ErrorEnvelope, invocation: Invocation, arguments: list[str]) -> int:
    invocation.format = invocation.format or _format_in(arguments)
    failures.print_error(outcome, as_json=invocation.as_json, pretty=invocation.pretty)
    return outcome.exit_code


def _format_in(arguments: list[str]) -> str | None:
    """The format that was asked for, when the arguments could not be read."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = argument.partition("=")
        if name == "--format" and (value or following) in ("json", "table"):
            return value or following
        if argument == "--json":
            return "json"
    return None


def _unexpected(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """One line for what should never happen; the whole story with LCM_DEBUG=1."""
    if os.environ.get("LCM_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    hint = "Run it again with LCM_DEBUG=1 to see where, and please report it."
    outcome = ErrorEnvelope("internal", f"Unexpected {kind.__name__}.", failures.INTERNAL, {}, hint)
    _failed(outcome, Invocation(), sys.argv[1:])


cli = Root(
    "lcm",
    help="Keep every word of agent conversations, and find any of it again.",
    context_settings={"help_option_names": ["-h", "--help"]},
    sections={
        "Look and search": {
            "status": CommandEntry("lossless.cli.status:status", "How much is kept, and whether anything was lost."),
            "conversations": CommandEntry(
                "lossless.cli.conversations:conversations", "List conversations, or show one."
            ),
            "messages": CommandEntry(
                "lossless.cli.conversations:messages", "List messages, show one, or show the fresh tail."
            ),
            "summaries": CommandEntry(
                "lossless.cli.conversations:summaries", "List summaries, or show one with its sources."
            ),
            "grep": CommandEntry("lossless.cli.recall:grep", "Find words, or any text, in messages and summaries."),
            "recall": CommandEntry("lossless.cli.recall:recall", "Gather what was said about a question."),
            "recent": CommandEntry("lossless.cli.recall:recent", "Show what was said in a time, by day and topic."),
            "describe": CommandEntry(
                "lossless.cli.recall:describe", "Open a summary, a message or a stored file by its id."
            ),
            "expand": CommandEntry("lossless.cli.recall:expand", "Read what summaries were made of."),
            "ask": CommandEntry("lossless.cli.recall:ask", "Answer a question, with the ids that support it."),
            "tui": CommandEntry("lossless.cli.tui:tui", "Browse everything at a terminal, and operate on it."),
        },
        "Store, import, export": {
            "append": CommandEntry("lossless.cli.append:append", "Store new messages."),
            "sync": CommandEntry("lossless.cli.append:sync", "Store what a whole window adds."),
            "import": CommandEntry(
                "lossless.cli.imports:import_", "Bring in transcripts of other programs, and archives."
            ),
            "export": CommandEntry(
                "lossless.cli.exports:export", "Write archives and conversations for others to read."
            ),
            "import-lossless-claw": CommandEntry(
                "lossless.cli.imports:import_lossless_claw_command", "`import lossless-claw`, as Remnic spells it."
            ),
            "bootstrap": CommandEntry("lossless.cli.transcripts:bootstrap", "Store what a host's transcript adds."),
            "backfill": CommandEntry("lossless.cli.backfill:backfill", "Build the summaries of what was imported."),
            "transcripts": CommandEntry(
                "lossless.cli.transcripts:transcripts", "Decide about transcripts that are held back."
            ),
            "quarantine": CommandEntry(
                "lossless.cli.transcripts:quarantine", "Decide about windows that fit no conversation."
            ),
        },
        "The context and its summaries": {
            "context": CommandEntry(
                "lossless.cli.context:context", "Show what the model sees now, or print the payload."
            ),
            "compact": CommandEntry("lossless.cli.compact:compact", "Fold older history into summaries now."),
            "worker": CommandEntry("lossless.cli.compact:worker", "Pay the sweeps that were put off."),
            "debt": CommandEntry("lossless.cli.compact:debt", "List the sweeps that were put off, and why they wait."),
            "pin": CommandEntry("lossless.cli.context:pin", "Keep words in every prompt, or list what is kept."),
            "unpin": CommandEntry("lossless.cli.context:unpin", "Take a pin away."),
            "cost": CommandEntry("lossless.cli.compact:cost", "Show what summaries cost, and what they save."),
            "graph": CommandEntry("lossless.cli.charts:graph", "Draw the summaries of a conversation as a picture."),
            "model": CommandEntry("lossless.cli.model:model", "Say which models write summaries, and try them."),
            "new": CommandEntry("lossless.cli.context:new", "Start afresh in the same conversation."),
            "reset": CommandEntry("lossless.cli.context:reset", "Close a conversation and start another."),
        },
        "Look after the archive": {
            "stub": CommandEntry("lossless.cli.files:stub", "Give large tool results files of their own."),
            "files": CommandEntry("lossless.cli.files:files", "List stored files, show one, or have them described."),
            "verify": CommandEntry(
                "lossless.cli.doctor:verify", "Prove that everything stored is there and reachable."
            ),
            "adopt": CommandEntry("lossless.cli.doctor:adopt", "Drop lossless-claw's own search tables to free space."),
            "size": CommandEntry("lossless.cli.retention:size", "Say what takes up space, and what could go."),
            "backup": CommandEntry("lossless.cli.retention:backup", "Copy the archive while it is in use."),
            "backups": CommandEntry("lossless.cli.retention:backups", "List the backups beside the archive."),
            "restore": CommandEntry("lossless.cli.retention:restore", "Replace the archive with a backup."),
            "prune": CommandEntry("lossless.cli.retention:prune", "Delete whole conversations for good."),
            "forget": CommandEntry(
                "lossless.cli.retention:forget", "Remove a text for good, and keep it from coming back."
            ),
            "rotate": CommandEntry(
                "lossless.cli.retention:rotate", "Shorten a host's transcript to its newest messages."
            ),
        },
        "Operate on summaries": {
            "dissolve": CommandEntry(
                "lossless.cli.surgery:dissolve", "Put what a summary was made of back into the context."
            ),
            "rewrite": CommandEntry("lossless.cli.rewrite:rewrite", "Write summaries again, and show how they differ."),
            "repair": CommandEntry("lossless.cli.rewrite:repair", "Rewrite summaries that fallbacks left behind."),
            "transplant": CommandEntry(
                "lossless.cli.surgery:transplant", "Copy a graph of summaries to another conversation."
            ),
            "merge": CommandEntry("lossless.cli.surgery:merge", "Put conversations of a split session back together."),
            "undo": CommandEntry("lossless.cli.surgery:undo", "Take back the last fold, surgery or focus."),
            "diff": CommandEntry("lossless.cli.surgery:diff", "Show what left the context, and what entered it."),
            "focus": CommandEntry(
                "lossless.cli.surgery:focus", "Let a brief on one question stand for older summaries."
            ),
            "refocus": CommandEntry("lossless.cli.surgery:refocus", "Bring the active brief up to date."),
            "unfocus": CommandEntry("lossless.cli.surgery:unfocus", "Put the active brief away."),
            "prompts": CommandEntry(
                "lossless.cli.rewrite:prompts", "Show or change what models are asked for summaries."
            ),
            "doctor": CommandEntry("lossless.cli.doctor:doctor", "Find what is wrong with the archive, and repair it."),
        },
        "Connect and configure": {
            "mcp": CommandEntry("lossless.cli.serve:mcp", "Serve the tools for agents over MCP."),
            "proxy": CommandEntry("lossless.cli.serve:proxy", "Serve model providers' APIs, with the archive between."),
            "install": CommandEntry("lossless.cli.install:install", "Give a host the hooks and tools it needs."),
            "uninstall": CommandEntry("lossless.cli.install:uninstall", "Take them away again."),
            "bridge": CommandEntry("lossless.cli.install:bridge", "Answer OpenClaw's plugin; it starts this itself."),
            "hook": CommandEntry("lossless.cli.install:hook", "Answer one hook of a host (`lcm-hook` starts faster)."),
            "config": CommandEntry("lossless.cli.config:config", "Show the settings, or set one."),
        },
    },
)


def main() -> None:
    """The entry point."""
    sys.excepthook = _unexpected
    _open_streams()
    cli()


def _open_streams() -> None:
    """Streams that whoever started this has closed lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()

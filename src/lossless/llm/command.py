"""An external command as a model: the prompt on its standard input, the answer on its standard output."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lossless.errors import BadSetting, ModelAuth, ModelDenied, ModelError, ModelTimeout
from lossless.llm import failures, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.llm.base import Completion, Prompt

_TAIL_CHARACTERS = 400
_KILL_WAIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CommandModel:
    """A program that reads a prompt (system text, blank line, user text) and prints an answer.

    It runs without a shell and is killed with its children when its time is over, or when our process ends.
    """

    arguments: Sequence[str]
    timeout_seconds: float = 60.0

    @property
    def name(self) -> str:
        return f"command/{os.path.basename(self.arguments[0])}"

    def __call__(self, prompt: Prompt, /) -> Completion:
        text = "\n\n".join(piece for piece in (prompt.system, prompt.user) if piece)
        try:
            process = subprocess.Popen(
                list(self.arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ModelDenied(f"command {self.arguments[0]!r} cannot be run: {error.strerror}") from error
        at_exit = atexit.register(partial(_end, process, os.getpid()))
        try:
            with process:
                output, complaints = self._communicate(process, text.encode("utf-8", "surrogatepass"))
        finally:
            atexit.unregister(at_exit)
        if process.returncode != 0:
            raise self._failure(process.returncode, complaints)
        return normalise.completion(output, self.name)

    def _communicate(self, process: subprocess.Popen[bytes], text: bytes) -> tuple[str, str]:
        try:
            output, complaints = process.communicate(text, timeout=self.timeout_seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise ModelTimeout(f"{self.name}: no answer within {self.timeout_seconds:g} s") from None
        return output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace")

    def _failure(self, code: int, complaints: str) -> ModelError:
        tail = complaints.strip()[-_TAIL_CHARACTERS:]
        reason = f"{self.name}: exit code {code}{f': {tail}' if tail else ''}"
        return ModelAuth(reason) if failures.says_auth(tail) else ModelError(reason)


def command_model(command: str | Sequence[str], timeout_seconds: float = 60.0) -> CommandModel:
    """A model from a command line or a list of arguments; raises `BadSetting` when it names no program."""
    try:
        arguments = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise BadSetting("summaryModel", command, "command", f"a command line ({error})") from error
    if not arguments:
        raise BadSetting("summaryModel", command, "command", "a command line")
    return CommandModel(tuple(arguments), timeout_seconds)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the command and what it started, unless this process is only a fork of its owner."""
    if os.getpid() != owner:
        return
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
    else:
        process.kill()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started, and take back its pipes."""
    _end(process, os.getpid())
    try:
        process.communicate(timeout=_KILL_WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

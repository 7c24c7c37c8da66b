"""Time limits hold for callables that hang, and a hanging one never holds up the end of the process."""

from __future__ import annotations

import contextvars
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from lossless import errors
from lossless.llm import completion
from lossless.llm.completion import Completion, Prompt

PROMPT = Prompt("", "", 10)


def test_a_value_comes_back() -> None:
    assert completion.run_within(lambda: 7, 60) == (7, None)


def test_an_error_comes_back_as_a_value() -> None:
    _, error = completion.run_within(lambda: 1 // 0, 60)
    assert isinstance(error, ZeroDivisionError)


def test_a_hanging_callable_is_left_behind() -> None:
    release = threading.Event()
    _, error = completion.run_within(release.wait, 0.05)
    assert isinstance(error, errors.ModelTimeout)
    release.set()


def test_an_interrupt_that_does_not_wake_the_waiting_thread_ends_the_wait() -> None:
    release, waited = threading.Event(), []

    def interrupted() -> None:
        release.wait(0.3)  # until the main thread waits; it handles the signal, but another thread gets it
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        waited.append(release.wait(20))

    with pytest.raises(KeyboardInterrupt):
        completion.run_within(interrupted, 60)
    assert not waited
    release.set()


def test_context_variables_are_there() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert completion.run_within(variable.get, 60) == ("mine", None)


def test_ask_raises_only_errors_of_ours() -> None:
    def broken(prompt: Prompt, /) -> Completion:
        raise KeyError("secret text of a message")

    with pytest.raises(errors.ModelError, match="KeyError") as caught:
        completion.ask_within(broken, PROMPT, 60)
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_ask_hands_on_what_stops_a_program() -> None:
    def stop(prompt: Prompt, /) -> Completion:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        completion.ask_within(stop, PROMPT, 60)


def test_a_timeout_of_the_callable_is_one_of_ours() -> None:
    def late(prompt: Prompt, /) -> Completion:
        raise TimeoutError

    with pytest.raises(errors.ModelTimeout):
        completion.ask_within(late, PROMPT, 60)


def test_the_process_ends_while_a_call_hangs() -> None:
    code = """
        import time
        from lossless import errors
        from lossless.llm import completion
        try:
            completion.ask_within(lambda prompt: time.sleep(600), None, 0.05)
        except errors.ModelTimeout:
            print("left")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "left"


def test_the_values_are_cheap_to_import() -> None:
    code = """
        import sys
        before = set(sys.modules)
        import lossless.llm.completion
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(new & {"asyncio", "pydantic_ai", "pydantic", "openai", "anthropic", "json", "logging"}))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"

"""An external command as a model: real processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lossless import errors
from lossless.llm.completion import Complete, Prompt
from lossless.llm.providers import command_arguments, command_model
from tests.waiting import is_gone, wait_for

PROMPT = Prompt("Be brief.", "Häufig: 你好", 400)


def python(code: str, seconds: float = 60.0) -> Complete:
    return command_model((sys.executable, "-c", code), seconds)


def test_the_prompt_goes_in_and_the_answer_comes_out() -> None:
    answer = python("import sys; print(sys.stdin.buffer.read().decode()[::-1].encode().decode())")(PROMPT)
    assert answer.text == "Be brief.\n\nHäufig: 你好"[::-1]
    assert answer.model == f"command/{Path(sys.executable).name}"
    assert answer.usage.cost is None


def test_thinking_is_taken_out_of_the_answer() -> None:
    assert python("print('<think>hm</think>Fine.')")(PROMPT).text == "Fine."


def test_no_output_is_an_empty_answer() -> None:
    assert python("pass")(PROMPT).text == ""


def test_a_command_that_reads_nothing_still_answers() -> None:
    assert python("print('Fine.')")(Prompt("", "x" * 2_000_000, 10)).text == "Fine."


def test_a_failure_shows_the_end_of_its_complaint() -> None:
    with pytest.raises(errors.ModelError, match=r"exit code 3: .*it broke$") as caught:
        python("import sys; sys.stderr.write('x' * 5000 + 'it broke'); sys.exit(3)")(PROMPT)
    assert type(caught.value) is errors.ModelError
    assert len(str(caught.value)) < 600


def test_refused_credentials_are_seen_in_the_complaint() -> None:
    with pytest.raises(errors.ModelAuth):
        python("import sys; sys.exit('Invalid API key · Please run /login')")(PROMPT)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "child"
    note.touch()
    for seconds in (0.5, 4.0, 30.0):  # until there was time enough for it to start a child
        with pytest.raises(errors.ModelTimeout):
            command_model(["sh", "-c", f"sleep 600 & echo $! > '{note}'; sleep 600"], seconds)(PROMPT)
        if note.read_text().endswith("\n"):
            break
    wait_for(lambda: is_gone(int(note.read_text())))


def test_a_command_ends_with_the_process_that_asks_it(tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = f"""
        import sys, threading
        from lossless.llm.completion import Prompt
        from lossless.llm.providers import command_model
        model = command_model(("sh", "-c", "cat > /dev/null; echo $$ > '{note}'; exec sleep 600"), 600)
        threading.Thread(target=model, args=(Prompt("", "", 9),), daemon=True).start()
        sys.stdin.readline()
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE) as host:
        wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
        assert not is_gone(int(note.read_text()))
    assert host.returncode == 0
    wait_for(lambda: is_gone(int(note.read_text())))


def test_a_command_that_is_not_there_fails_closed() -> None:
    with pytest.raises(errors.ModelDenied, match="'no-such-program-anywhere' cannot be run"):
        command_model("no-such-program-anywhere --flag")(PROMPT)


def test_a_command_line_is_split_without_a_shell() -> None:
    assert command_arguments("claude -p 'two words' $HOME") == ["claude", "-p", "two words", "$HOME"]
    assert command_arguments(["a", "b c"]) == ["a", "b c"]


@pytest.mark.parametrize("line", ["", "  ", "'open"])
def test_a_line_without_a_program_is_refused(line: str) -> None:
    with pytest.raises(errors.BadSetting):
        command_model(line)

"""`lcm proxy` as a process: it listens, serves, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.testing.provider import Provider
from tests.forking import run_lcm
from tests.serve.proxy_kit import TOKEN, post

if TYPE_CHECKING:
    from pathlib import Path

LCM = [sys.executable, "-m", "lossless.cli.main"]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(arguments, *run_lcm(*arguments, env=os.environ | env))


def test_it_serves_until_it_is_told_to_end(path: Path) -> None:
    env = os.environ | {"LCM_PROXY_TOKEN": TOKEN, "MY_KEY": "sk-own"}
    with Provider() as provider:
        options = ["--port", "0", "--openai-url", f"{provider.url}/v1", "--openai-key-env", "MY_KEY"]
        command = [*LCM, "--db", str(path), "proxy", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None
            try:
                said = json.loads(process.stdout.readline())
                assert said["data"]["serving"]
                body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
                url = f"{said['data']['url']}/v1/chat/completions"
                answer = post(url, json=body, headers={"x-lossless-token": TOKEN})
                assert answer.json()["choices"][0]["message"]["content"] == "You said: hello"
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
                assert (process.returncode, out, err) == (0, "", "")
            finally:
                process.kill()
        assert provider.requests[0].headers["authorization"] == "Bearer sk-own"
    with lossless.open(path, background=False) as engine:
        assert engine.verify().messages == 2
    assert TOKEN not in json.dumps(said)
    assert "sk-own" not in json.dumps(said)


def test_a_look_before(path: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    done = run(
        "--db", str(path), "--format", "table", "proxy", "--check", "--token-file", str(token), "--window", "9000"
    )
    assert done.returncode == 0, done.stderr
    assert "It would listen on http://127.0.0.1:4879" in done.stdout
    assert "9,000 tokens" in done.stdout
    assert "x-lossless-history: append" in done.stdout
    assert token.read_text().strip() not in done.stdout
    assert not path.exists()


def test_the_history_may_be_the_archives(path: Path) -> None:
    done = run("--db", str(path), "proxy", "--check", "--history", "append", LCM_PROXY_TOKEN=TOKEN)
    assert json.loads(done.stdout)["data"]["history"] == "append"
    shown = run(
        "--db", str(path), "--format", "table", "proxy", "--check", "--history", "append", LCM_PROXY_TOKEN=TOKEN
    )
    assert "a request brings what is new" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--openai-url", "ftp://x"], "is no address"),
        (["--openai-url", "http://"], "is no address"),
        (["--anthropic-url", "http://[x"], "is no address"),
        (["--anthropic-url", "http://x:99999"], "is no address"),
        (["--openai-key-env", "NO_SUCH_VARIABLE"], "is not set"),
        (["--port", "99999"], "99999"),
        (["--history", "all"], "append"),
    ],
)
def test_wrong_options(path: Path, arguments: list[str], said: str) -> None:
    done = run("--db", str(path), "proxy", "--check", *arguments, LCM_PROXY_TOKEN=TOKEN)
    assert done.returncode == 2
    assert said in json.loads(done.stderr)["error"]["message"]


def test_a_port_that_is_taken(path: Path) -> None:
    with Provider() as other:
        port = other.url.rpartition(":")[2]
        done = run("--db", str(path), "proxy", "--port", port, LCM_PROXY_TOKEN=TOKEN)
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "--port" in done.stderr

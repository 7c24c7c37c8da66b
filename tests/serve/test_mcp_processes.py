"""The MCP server as hosts start it: a child process on standard input and output, and HTTP on this machine."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from lossless.errors import BadInput
from lossless.serve.access import load_token, token_file
from tests.forking import run_lcm
from tests.serve.kit import LCM, copied, environment, run, text_of
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("mcp") / "lcm.db")


# --- standard input and output ------------------------------------------------------------------------


def test_a_child_process_answers_on_its_standard_output(archive: Path, tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=LCM[0], args=[*LCM[1:], "--db", str(archive), "mcp"], env=environment(tmp_path)
    )

    async def talk() -> tuple[str, str]:
        async with Client(stdio_client(server)) as client:
            found = await client.call_tool("lcm_grep", {"pattern": "The other port"})
            wrong = await client.call_tool("lcm_describe", {"id": "sum_nowhere"})
            assert wrong.is_error
            return text_of(found), text_of(wrong)

    found, wrong = run(talk)
    assert "9999" in found
    assert "Not found" in wrong


def test_settings_in_the_folder_of_a_project_are_not_read(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "lossless.toml").write_text(f"databasePath = {str(archive)!r}\n")
    home = tmp_path / "me"
    home.mkdir()
    server = StdioServerParameters(command=LCM[0], args=[*LCM[1:], "mcp"], env=environment(home), cwd=tmp_path)

    async def talk() -> str:
        async with Client(stdio_client(server)) as client:
            return text_of(await client.call_tool("lcm_status", {}))

    assert f"there is no archive at '{home}/.local/share/lossless/lcm.db' yet: it is made when" in run(talk)


def test_initialize_is_answered_before_anything_is_opened(tmp_path: Path) -> None:
    """Whoever only says hello does not wait for an archive: it is not even made."""
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    command = [*LCM, "--db", str(tmp_path / "lcm.db"), "mcp"]
    done = subprocess.run(command, input=hello, capture_output=True, check=True, env=environment(tmp_path), timeout=60)
    answer = done.stdout.decode()
    assert '"serverInfo":{' in answer
    assert '"protocolVersion":"2025-06-18"' in answer
    assert not (tmp_path / "lcm.db").exists()


# --- HTTP ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a free port."""
    env = environment(tmp_path_factory.mktemp("home"), LCM_MCP_TOKEN=TOKEN)
    command = [*LCM, "--db", str(archive), "mcp", "--http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", said)
        assert found, said
        assert TOKEN not in said
        wait_for(lambda: _is_listening(found[0]))
        yield found[0]
        server.send_signal(signal.SIGINT)
        assert server.wait(60) in (0, 130)


def _is_listening(url: str) -> bool:
    try:
        httpx2.get(url, timeout=60)
    except httpx2.TransportError:
        return False
    return True


def post(url: str, **headers: str) -> int:
    """The status of a request for the tools."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    given = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"} | headers
    return int(httpx2.post(url, json=body, headers=given, timeout=60).status_code)


def test_those_who_know_the_token_are_answered(address: str) -> None:
    async def talk() -> str:
        known = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        async with known, Client(streamable_http_client(address, http_client=known)) as client:
            return text_of(await client.call_tool("lcm_grep", {"pattern": "The other port"}))

    assert "9999" in run(talk)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Authorization": "Bearer wrong-token-of-some-length"}, id="a wrong token"),
        pytest.param({"Authorization": ""}, id="no token"),
        pytest.param({"Authorization": f"bearer {TOKEN}x"}, id="a longer token"),
        pytest.param({"Authorization": "Basic " + TOKEN}, id="another scheme"),
    ],
)
def test_those_who_do_not_are_refused(address: str, headers: dict[str, str]) -> None:
    assert post(address, **headers) == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "evil.example"}, 421, id="a foreign host"),
        pytest.param({"Host": "127.0.0.1:1"}, 421, id="another port"),
        pytest.param({"Origin": "http://evil.example"}, 403, id="a foreign page"),
    ],
)
def test_pages_of_others_are_refused(address: str, headers: dict[str, str], status: int) -> None:
    assert post(address, **headers) == status


def test_a_port_that_is_taken_is_said(address: str, archive: Path, tmp_path: Path) -> None:
    port = address.rsplit(":", 1)[1].removesuffix("/mcp")
    env = environment(tmp_path, LCM_MCP_TOKEN=TOKEN)
    code, _, err = run_lcm("--db", archive, "mcp", "--http", "--port", port, env=env)
    assert code == 2
    assert f"port {port} cannot be used" in err


# --- the token ----------------------------------------------------------------------------------------


def test_a_token_is_made_for_its_owner_only(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    secret, source = load_token(env=env)
    file = token_file(env)
    assert source == str(file)
    assert len(secret) >= 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_token(env=env) == (secret, source)
    assert load_token(env=env | {"LCM_MCP_TOKEN": TOKEN}) == (TOKEN, "$LCM_MCP_TOKEN")
    assert load_token(file, env | {"LCM_MCP_TOKEN": TOKEN}) == (secret, source)


@pytest.mark.parametrize("text", ["short", "with a blank in the middle of it", ""])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(BadInput):
        load_token(file, {})


@pytest.mark.skipif(os.name != "posix", reason="permissions are a matter of POSIX")
def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    with pytest.raises(BadInput, match="others can read"):
        load_token(file, {})


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    code, _, err = run_lcm("mcp", "--port", "1", env=environment(tmp_path))
    assert code == 2
    assert "--http" in err

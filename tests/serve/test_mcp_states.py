"""What a model gets when the archive is missing, empty, somebody else's, not to be written, or in use."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

import lossless
from lossless.model.conversations import Session
from lossless.serve.archive_tools import ArchiveTools, host_session, open_existing
from lossless.serve.mcp import make_server, resource_page
from lossless.settings import Settings
from tests.recall.archives import SETTINGS, folded
from tests.serve.kit import LCM, copied, environment, room, run, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = lossless.Session(key="agent:main:main")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("lcm_grep", {"pattern": "ferry"}),
    ("lcm_recall", {"question": "Which port does the ferry use?"}),
    ("lcm_describe", {"id": "msg#1"}),
    ("lcm_expand", {"query": "ferry"}),
    ("lcm_expand_query", {"prompt": "Which port?", "query": "ferry"}),
    ("lcm_status", {}),
]
MISSING = re.compile(r"Nothing is stored yet; there is no archive at .*`lcm connect`.*--db")

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are a matter of POSIX")


@contextmanager
def allowed(folder: Path, bits: int, name: str, file_bits: int = 0o444) -> Iterator[None]:
    """Be somebody who may do this much with a folder and a file in it; root becomes another user meanwhile."""
    asked(folder / name)  # so that everything is imported
    (folder / name).chmod(file_bits)
    folder.chmod(bits)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        (folder / name).chmod(0o644)


def asked(path: Path) -> tuple[dict[str, tuple[bool, str]], list[Any]]:
    """Each tool's answer with whether it failed, and the resources, from a room on a path."""
    room = ArchiveTools(lambda: open_existing(str(path), Settings()))

    async def talk() -> tuple[dict[str, tuple[bool, str]], list[Any]]:
        async with Client(make_server(room)) as client:
            answers = {}
            for name, arguments in CALLS:
                result = await client.call_tool(name, arguments)
                answers[name] = (bool(result.is_error), text_of(result))
            assert (await client.get_prompt("recall_policy")).messages
            try:
                resources: list[Any] = list((await client.list_resources()).resources)
            except MCPError as error:
                resources = [str(error)]
            return answers, resources

    try:
        return run(talk)
    finally:
        room.close()


def kept(path: Path) -> Path:
    with lossless.open(path, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": "The ferry listens on port 8443."}])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can reach."""
    public = next((above for above in tmp_path.parents if above.stat().st_mode & 0o003 == 0o003), tmp_path)
    with TemporaryDirectory(prefix="lossless-", dir=public) as name:
        yield Path(name)


@pytest.mark.parametrize("name", ["lcm.db", "no/such/folder/lcm.db"])
def test_that_nothing_is_kept_yet_is_an_answer(tmp_path: Path, name: str) -> None:
    answers, resources = asked(tmp_path / name)
    for failed, text in answers.values():
        assert not failed
        assert MISSING.match(text)
    assert resources == []
    assert not list(tmp_path.iterdir())


def test_an_empty_file_is_no_archive_and_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "lcm.db").touch()
    answers, resources = asked(tmp_path / "lcm.db")
    assert all(MISSING.match(text) for _, text in answers.values())
    assert resources == []
    assert (tmp_path / "lcm.db").read_bytes() == b""


def test_a_server_that_hosts_start_answers_without_an_archive(tmp_path: Path) -> None:
    server = StdioServerParameters(command=LCM[0], args=[*LCM[1:], "mcp"], env=environment(tmp_path), cwd=tmp_path)

    async def talk() -> tuple[bool | None, str]:
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool("lcm_grep", {"pattern": "ferry"})
            return result.is_error, text_of(result)

    failed, text = run(talk)
    assert not failed
    assert MISSING.match(text)
    assert not list(tmp_path.glob("**/*.db"))


def test_an_archive_without_messages_is_searched_like_any_other(tmp_path: Path) -> None:
    lossless.open(tmp_path / "lcm.db", background=False).close()
    answers, resources = asked(tmp_path / "lcm.db")
    assert resources == []
    for name, said in (("lcm_grep", "Nothing"), ("lcm_recall", "Nothing"), ("lcm_status", "0 conversations")):
        failed, text = answers[name]
        assert not failed
        assert said in text


def test_whoever_looked_everywhere_is_not_sent_to_look_further(tmp_path: Path) -> None:
    lossless.open(tmp_path / "lcm.db", background=False).close()
    failed, text = asked(tmp_path / "lcm.db")[0]["lcm_describe"]
    assert failed
    assert "Not found in any conversation: msg#1" in text
    assert "allConversations" not in text


def test_a_database_of_something_else_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with closing(sqlite3.connect(path)) as other:
        other.executescript("CREATE TABLE notes (text)")
    before = path.read_bytes()
    answers, resources = asked(path)
    assert all(failed and "a database of another program" in text for failed, text in answers.values())
    assert "a database of another program" in resources[0]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["lcm.db"]


def test_a_file_that_is_no_database_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    path.write_text("Dear diary,\n" * 500)
    answers, _ = asked(path)
    assert all(failed and "not a SQLite database" in text for failed, text in answers.values())
    assert path.read_text() == "Dear diary,\n" * 500


@posix
def test_an_archive_that_may_only_be_read_is_read(folder: Path) -> None:
    path = kept(folder / "lcm.db")
    before = path.read_bytes()
    with allowed(folder, 0o555, path.name):
        answers, resources = asked(path)
    assert resources == []
    for name, (failed, text) in answers.items():
        assert not failed, text
        assert ("1 messages" if name == "lcm_status" else "8443") in text
    assert path.read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["lcm.db"]


@posix
def test_what_is_written_by_others_shows_in_an_archive_that_may_only_be_read(folder: Path) -> None:
    path = kept(folder / "lcm.db")
    room = ArchiveTools(lambda: open_existing(str(path), Settings()))
    with allowed(folder, 0o555, path.name):
        assert "1 messages" in room.call("lcm_status").text
    with lossless.open(path, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": "The ferry moved to port 9999."}])
    with allowed(folder, 0o555, path.name):
        assert "9999" in room.call("lcm_recall", {"question": "Which port does the ferry use?"}).text
    room.close()


@posix
def test_a_place_that_may_not_be_looked_at_is_said(folder: Path) -> None:
    path = kept(folder / "lcm.db")
    with allowed(folder, 0o000, path.name):
        answers, resources = asked(path)
    assert all(failed and "Permission denied" in text for failed, text in answers.values())
    assert "Permission denied" in resources[0]


@posix
def test_a_file_that_may_not_be_read_is_said(folder: Path) -> None:
    path = kept(folder / "lcm.db")
    with allowed(folder, 0o555, path.name, file_bits=0o000):
        answers, _ = asked(path)
    assert all(failed and '"denied"' in text for failed, text in answers.values())


def test_a_place_below_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answers, _ = asked(tmp_path / "file" / "lcm.db")
    assert all(failed and "cannot be used" in text for failed, text in answers.values())


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_writer_does_not_hold_readers_up(tmp_path: Path, kind: str) -> None:
    path = kept(tmp_path / "lcm.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"BEGIN {kind}")
        answers, _ = asked(path)
    for name, (failed, text) in answers.items():
        assert not failed, text
        assert ("1 messages" if name == "lcm_status" else "8443") in text


def test_the_session_that_the_host_runs_is_looked_at_first(tmp_path: Path) -> None:
    env = {"CLAUDE_CODE_SESSION_ID": "run-2", "CLAUDE_PROJECT_DIR": "/home/me/ferry"}
    running = host_session(env)
    assert (running.id, running.project) == ("run-2", "/home/me/ferry")
    assert host_session({}).project == os.getcwd()
    path, known = copied(tmp_path / "lcm.db"), folded()
    with closing(room(path, host=running)) as where:
        found = where.call("lcm_grep", {"pattern": "port"})
        assert {hit["conversationId"] for hit in found.details["matches"]} == {known.other_id}
        assert found.text.endswith("allConversations=true looks at the others, too.)")
        everywhere = where.call("lcm_grep", {"pattern": "port", "allConversations": True})
        assert len({hit["conversationId"] for hit in everywhere.details["matches"]}) == 2
        elsewhere = where.call("lcm_describe", {"id": known.top})
        assert known.top in elsewhere.text
        assert not elsewhere.is_error
        assert f"This session is conversation {known.other_id}." in where.call("lcm_status").text
    with closing(room(path, host=Session(id="not stored"))) as where:
        assert where.call("lcm_describe", {"id": known.top}).details["id"] == known.top
    narrow = replace(SETTINGS, recall_scope="session")
    with closing(room(path, host=running, settings=narrow)) as where:
        refused = where.call("lcm_describe", {"id": known.top})
        assert refused.is_error
        assert resource_page(where).resources == []
        assert [row["conversationId"] for row in where.call("lcm_status").details["newest"]] == [known.other_id]
        assert not where.call("lcm_grep", {"pattern": "ferry", "allConversations": True}).details["matches"]

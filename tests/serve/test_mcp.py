"""The MCP server, spoken to by the SDK's own client in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import lossless
from lossless.context.render import RECALL_POLICY
from lossless.recall.tools import TOOLS
from lossless.serve.archive_tools import ArchiveTools, open_existing
from lossless.serve.mcp import INSTRUCTIONS, make_server
from lossless.settings import Settings
from tests.recall.archives import MAIN, OTHER, folded
from tests.serve.kit import copied, room, run, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("mcp") / "lcm.db")


@pytest.fixture
def everything(archive: Path) -> Iterator[ArchiveTools]:
    """A room for all conversations."""
    opened = room(archive)
    yield opened
    opened.close()


@pytest.fixture
def family(archive: Path) -> Iterator[ArchiveTools]:
    """A room for one session."""
    opened = room(archive, MAIN.key)
    yield opened
    opened.close()


def ask(where: ArchiveTools, function: Callable[[Client], Awaitable[Any]], mode: str = "auto") -> Any:
    async def talk() -> Any:
        async with Client(make_server(where), mode=mode) as client:
            return await function(client)

    return run(talk)


def refused(where: ArchiveTools, function: Callable[[Client], Awaitable[Any]]) -> None:
    """Ask for something that is an error of the protocol."""

    async def talk(client: Client) -> None:
        with pytest.raises(MCPError):
            await function(client)

    ask(where, talk)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tool_table_is_what_clients_see(everything: ArchiveTools, mode: str) -> None:
    listed = ask(everything, lambda client: client.list_tools(), mode).tools
    assert [tool.name for tool in listed] == [*(tool.name for tool in TOOLS), "lcm_status"]
    assert [tool.input_schema for tool in listed[:-1]] == [tool.schema for tool in TOOLS]
    assert all(tool.annotations.read_only_hint for tool in listed)
    grep = listed[0]
    assert grep.description.startswith(TOOLS[0].help)
    assert "all conversations" in grep.description


def test_nothing_is_opened_before_a_question() -> None:
    def never() -> lossless.Engine:
        raise AssertionError("opened too early")

    quiet = ArchiveTools(never)
    assert ask(quiet, lambda client: client.list_tools()).tools
    assert ask(quiet, lambda client: client.list_prompts()).prompts
    assert len(ask(quiet, lambda client: client.list_resource_templates()).resource_templates) == 3
    quiet.close()


def test_clients_are_told_how_to_recall(everything: ArchiveTools) -> None:
    async def talk(client: Client) -> Any:
        return client.instructions, await client.get_prompt("recall_policy")

    instructions, prompt = ask(everything, talk)
    assert instructions == INSTRUCTIONS
    assert prompt.messages[0].content.text == RECALL_POLICY
    assert len(INSTRUCTIONS) < 2_000


def test_each_tool_answers(everything: ArchiveTools) -> None:
    known = folded()
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("lcm_grep", {"pattern": "9999"}, "9999"),
        ("lcm_describe", {"id": known.top}, known.top),
        ("lcm_expand", {"summaryIds": [known.leaves[0]]}, "msg#"),
        ("lcm_recall", {"question": "Which port does the other one use?"}, "9999"),
        ("lcm_status", {}, "2 conversations"),
    ]

    async def talk(client: Client) -> None:
        for name, arguments, expected in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            assert expected in text_of(result), name

    ask(everything, talk)


def test_a_question_without_a_model_is_answered_with_evidence(everything: ArchiveTools) -> None:
    arguments = {"prompt": "Why did the sandbox merchant fail?", "query": "sandbox merchant"}
    result = ask(everything, lambda client: client.call_tool("lcm_expand_query", arguments))
    assert "sandbox" in text_of(result)


def test_a_session_sees_its_own_and_more_when_asked(family: ArchiveTools) -> None:
    async def talk(client: Client) -> tuple[str, str, str]:
        own = await client.call_tool("lcm_grep", {"pattern": "9999"})
        wider = await client.call_tool("lcm_grep", {"pattern": "9999", "allConversations": True})
        status = await client.call_tool("lcm_status", {"limit": 1})
        return text_of(own), text_of(wider), text_of(status)

    own, wider, status = ask(family, talk)
    assert "The other port" not in own
    assert "The other port" in wider
    assert f"This session is conversation {folded().conversation_id}." in status


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        pytest.param("lcm_grep", {}, "pattern is required", id="an argument is missing"),
        pytest.param("lcm_grep", {"pattern": "(", "mode": "regex"}, "error", id="a pattern that is none"),
        pytest.param("lcm_describe", {"id": "sum_nowhere"}, "Not found", id="an unknown id"),
        pytest.param("lcm_describe", {"id": "msg#1", "conversationId": 999}, "999", id="an unknown conversation"),
        pytest.param("lcm_status", {"limit": "many"}, "limit", id="a number that is none"),
        pytest.param("lcm_forget", {}, "there is no tool", id="an unknown tool"),
    ],
)
def test_what_is_wrong_is_said_to_the_model(
    everything: ArchiveTools, name: str, arguments: dict[str, Any], said: str
) -> None:
    result = ask(everything, lambda client: client.call_tool(name, arguments))
    assert result.is_error
    assert said in text_of(result)


def test_an_archive_that_is_not_there_is_an_answer_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "later.db"

    where = ArchiveTools(lambda: open_existing(str(path), Settings()))
    early = ask(where, lambda client: client.call_tool("lcm_status", {}))
    assert not early.is_error
    assert "later.db" in text_of(early)
    with lossless.open(path, background=False) as engine:
        engine.append(OTHER, [{"role": "user", "content": "hello"}])
    late = ask(where, lambda client: client.call_tool("lcm_status", {}))
    assert "1 conversations, 1 messages" in text_of(late)
    where.close()


def test_questions_at_the_same_time(everything: ArchiveTools) -> None:
    async def talk(client: Client) -> list[bool]:
        outcomes: list[bool] = []

        async def once(number: int) -> None:
            result = await client.call_tool("lcm_recall", {"question": f"What is said about port {number}?"})
            outcomes.append(bool(result.is_error))

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(once, number)
        return outcomes

    assert ask(everything, talk) == [False] * 12


# --- resources ------------------------------------------------------------------------------------


def test_summaries_are_listed_page_by_page(everything: ArchiveTools) -> None:
    async def talk(client: Client) -> list[str]:
        found, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            found += [str(resource.uri) for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                return found

    known = folded()
    assert sorted(ask(everything, talk)) == sorted(f"lcm://summary/{id_}" for id_ in (*known.leaves, *known.condensed))


def test_resources_are_what_describe_shows(everything: ArchiveTools) -> None:
    known = folded()

    async def talk(client: Client) -> list[tuple[str, str]]:
        pairs = []
        for address, id_ in ((f"summary/{known.top}", known.top), ("message/3", "msg#3")):
            read = await client.read_resource(f"lcm://{address}")
            described = await client.call_tool("lcm_describe", {"id": id_})
            pairs.append((read.contents[0].text, text_of(described)))  # type: ignore[union-attr]
        return pairs

    for read, described in ask(everything, talk):
        assert read == described


@pytest.mark.parametrize(
    "address",
    ["lcm://summary/sum_nowhere", "lcm://message/0", "lcm://message/x", "lcm://other/1", "file:///etc/passwd"],
)
def test_an_address_that_leads_nowhere_is_an_error(everything: ArchiveTools, address: str) -> None:
    refused(everything, lambda client: client.read_resource(address))


def test_a_cursor_of_another_list_is_an_error(everything: ArchiveTools) -> None:
    refused(everything, lambda client: client.list_resources(cursor="nonsense"))
    refused(everything, lambda client: client.get_prompt("nonsense"))


def test_a_session_lists_its_own_summaries(archive: Path) -> None:
    other = room(archive, OTHER.key)
    assert ask(other, lambda client: client.list_resources()).resources == []
    other.close()
    nobody = room(archive, "agent:none:none")
    assert ask(nobody, lambda client: client.list_resources()).resources == []
    nobody.close()

"""Files for older answers of tools, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lossless.files.document import DEFAULT_STUB_BYTES, plan_stubs, stub_payload
from lossless.maintenance.surgery import tool_outputs
from lossless.model.messages import StoredToolOutput
from tests.files.archives import Kept
from tests.files.payloads import LARGE, Body

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 10**9
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "/var/log/app.log"}'}}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    found = Kept.open(tmp_path)
    yield found
    found.archive.close()


def tool_message(text: str, call_id: str = "call_1") -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def filled(kept: Kept) -> list[int]:
    """A call, its large answer, a small one, and one of our own tools."""
    own = {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "lcm_describe",
        "content": [{"type": "text", "text": LARGE * 3}],
    }
    bodies: list[Body] = [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        tool_message(LARGE * 2),
        tool_message("small", "call_2"),
        own,
        {"role": "user", "content": LARGE * 2},
    ]
    return [kept.append(body, threshold=MANY) for body in bodies]


def test_large_answers_get_a_file_and_keep_their_text(kept: Kept) -> None:
    ids = filled(kept)
    before = [stored.message for stored in kept.archive.messages.many(ids)]
    work = tool_outputs.plan_stubs(kept.parts, 8000)
    assert [(output.message_id, output.byte_size, output.tool) for output in work.outputs] == [
        (ids[1], 2 * len(LARGE), "read")
    ]
    assert (work.left, work.bytes) == (1, 2 * len(LARGE))
    assert kept.files.listed() == []  # a plan writes nothing

    seen: list[int] = []
    report = tool_outputs.apply_stubs(kept.parts, work, seen.append)
    assert (report.stubbed, report.bytes, report.passed_over, seen) == (1, 2 * len(LARGE), 0, [1])
    (file,) = kept.files.listed()
    assert kept.vault.read(file).data == (LARGE * 2).encode()
    assert (file.name, file.mime) == ("read.txt", "text/plain")
    assert (file.exploration_summary or "").startswith('Tool input: {"path": "/var/log/app.log"}\nText exploration')
    stored = kept.archive.messages.many(ids)
    assert [message.message for message in stored] == before
    assert [message.file_id for message in stored] == [None, file.id, None, None, None]
    assert kept.files.text_of(file) == LARGE * 2
    assert kept.files.text_of(replace(file, id="file_0000000000000000")) is None


def test_doing_it_again_does_nothing(kept: Kept) -> None:
    filled(kept)
    work = tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES)
    tool_outputs.apply_stubs(kept.parts, work)
    assert tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES).outputs == ()
    report = tool_outputs.apply_stubs(kept.parts, work)
    assert (report.stubbed, report.passed_over) == (0, 1)
    assert len(kept.files.listed()) == 1


def test_it_can_be_taken_back(kept: Kept) -> None:
    ids = filled(kept)
    tool_outputs.apply_stubs(kept.parts, tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES))
    assert list(marks := kept.files.stubs(None)) == [ids[1]]
    assert tool_outputs.revert_stubs(kept.archive, marks) == (1, 1)
    assert kept.files.listed() == []
    assert kept.files.stubs(None) == {}
    assert len(kept.vault.orphans(kept.files.ids(), min_age_seconds=-1)) == 1
    assert tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES).bytes == 2 * len(LARGE)


def test_a_row_that_something_else_names_stays(kept: Kept) -> None:
    filled(kept)
    tool_outputs.apply_stubs(kept.parts, tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES))
    (file,) = kept.files.listed()
    kept.append({"role": "user", "content": f"open {file.id} again"})
    assert tool_outputs.revert_stubs(kept.archive, kept.files.stubs(None)) == (1, 0)
    assert kept.files.listed() == [file]


def test_one_conversation_and_a_limit(kept: Kept) -> None:
    for number in range(3):
        kept.append(tool_message(f"{number}{LARGE * 2}"), threshold=MANY)
    kept.append(tool_message(LARGE * 2), threshold=MANY, key="agent:other:main")
    assert len(tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES).outputs) == 4
    assert len(tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES, limit=2).outputs) == 2
    assert len(tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES, 2).outputs) == 1
    assert tool_outputs.plan_stubs(kept.parts, 10**6).outputs == ()
    tool_outputs.apply_stubs(kept.parts, tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES))
    assert list(kept.files.stubs(2)) == [4]


def test_a_message_without_a_known_tool(kept: Kept) -> None:
    kept.append(tool_message(LARGE * 2, "call_9"), threshold=MANY)
    work = tool_outputs.plan_stubs(kept.parts, DEFAULT_STUB_BYTES)
    assert work.outputs[0].tool is None
    tool_outputs.apply_stubs(kept.parts, work)
    assert kept.files.listed()[0].name == "tool-output.txt"


def test_references_get_no_file() -> None:
    reference = StoredToolOutput(1, 1, 9000, "[LCM Tool Output: file_0123456789abcdef | tool=exec", "exec")
    forged = StoredToolOutput(2, 1, 9000, "[LCM Tool Output: nothing", "exec")
    work = plan_stubs([reference, forged])
    assert (work.outputs, work.left) == ((forged,), 1)


def test_a_long_tool_input_is_cut() -> None:
    payload = stub_payload(StoredToolOutput(1, 1, 9000, "", "exec"), LARGE, "x" * 100_000)
    assert len(payload.summary.partition("\n")[0]) < 500

"""Pictures, file blocks and large results that lossless-claw has put into files are known as the rows they are."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless.formats import decode
from lossless.ingest.synthetic import is_referenced
from lossless.model.messages import Incoming
from tests.faults import SESSION, contents, context, problems

if TYPE_CHECKING:
    from pathlib import Path

    import lossless

Raw = dict[str, Any]
TABLE = "id,name,value\n" + "".join(f"{n},row-{n},{n * 919 % 1000}\n" for n in range(300))
LOG = "".join(f"2026-01-05T09:{n % 60:02} worker-{n % 13} failed code={n * 31}\n" for n in range(400))
PICTURE = bytes(range(200))
CALL = "call_abcdefgh1"
MESSAGE = """INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count)
             VALUES (?, 1, ?, ?, ?, 100)"""
ITEM = "INSERT INTO context_items VALUES (1, ?, 'message', ?, NULL, datetime('now'))"
PART = """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, tool_call_id,
          tool_name, tool_input, metadata) VALUES (?, ?, 'run-1', ?, ?, ?, ?, ?, ?, ?)"""
FILE = "INSERT INTO large_files (file_id, conversation_id, byte_size, storage_uri) VALUES (?, 1, ?, '/gone')"


def asked(content: Any) -> Raw:
    return {"role": "user", "content": content, "timestamp": 1}


def answered(text: str, *more: Raw) -> Raw:
    return {"role": "assistant", "content": [{"type": "text", "text": text}, *more], "stopReason": "stop"}


def said() -> list[Raw]:
    """What the host shows: each third message has a payload."""
    block = f'Here is a file:\n<file name="report.csv" mime="text/csv">\n{TABLE}</file>\nplease look at it'
    call = {"type": "toolCall", "id": CALL, "name": "read", "arguments": {"path": "big.log"}}
    picture = {"type": "image", "data": base64.b64encode(PICTURE).decode(), "mimeType": "image/png"}
    return [
        asked("Good morning, there is a report to be checked."),
        answered("Then let me see that report."),
        asked("Here it comes, with a log and a picture."),
        asked([{"type": "text", "text": block}]),
        answered("The values look random.", call),
        {"role": "toolResult", "toolCallId": CALL, "toolName": "read", "content": [{"type": "text", "text": LOG}]},
        answered("The workers fail again and again."),
        asked([{"type": "text", "text": "picture"}, picture]),
        answered("A picture of the failing machine."),
        asked("And what do we do about it?"),
    ]


def references() -> dict[int, str]:
    """What lossless-claw writes in the place of the payloads."""
    summary = "\n\nExploration Summary:\nRows: 300."
    size = f"{len(TABLE):,} bytes"
    return {
        3: f"Here is a file:\n[LCM File: file_79f53ddb17884d6d | report.csv | text/csv | {size}]{summary}\n"
        "please look at it",
        5: f"[LCM Tool Output: file_b0b7d05a46d54462 | tool=read | {len(LOG):,} bytes]\n\nExploration Summary:\nText.",
        7: f"picture\n[User image: user-image.png (image/png, {len(PICTURE)} bytes) | LCM file: file_0792c4e86a6b4130]",
    }


def parts_of(number: int, message: Raw, text: str) -> list[tuple[str, str | None, str | None, Raw]]:
    """The parts of a row: kind, call, words, metadata."""
    if message["role"] == "toolResult":
        about = {"originalRole": "toolResult", "toolCallId": CALL, "toolName": "read", "toolOutputExternalized": True}
        about |= {"rawType": "tool_result", "raw": {"type": "tool_result", "text": text}}
        return [("tool", CALL, text, about)]
    parts: list[tuple[str, str | None, str | None, Raw]] = [("text", None, text, {"originalRole": message["role"]})]
    if number == 4:
        about = {"originalRole": "assistant", "rawType": "toolCall", "raw": message["content"][1]}
        parts.append(("tool", CALL, None, about))
    return parts


@pytest.fixture
def stored(engine: lossless.Engine) -> lossless.Engine:
    """An archive as lossless-claw leaves it, without entry ids."""
    database = engine.archive.database
    with engine.archive.writing():
        engine.archive.conversations.open(SESSION, engine.loop.clock())
        for number, message in enumerate(said()):
            text = references().get(number, decode(message).content)
            role = "tool" if message["role"] == "toolResult" else message["role"]
            database.run(MESSAGE, (number + 1, number + 1, role, text))
            database.run(ITEM, (number, number + 1))
            for ordinal, (kind, call, words, about) in enumerate(parts_of(number, message, text)):
                given = json.dumps(about["raw"]["arguments"]) if words is None else None
                tool = "read" if kind == "tool" else None
                where = (f"p{number}.{ordinal}", number + 1, kind, ordinal)
                database.run(PART, (*where, words, call, tool, given, json.dumps(about)))
        for file, size in (("79f53ddb17884d6d", len(TABLE)), ("b0b7d05a46d54462", len(LOG)), ("0792c4e86a6b4130", 200)):
            database.run(FILE, (f"file_{file}", size))
    return engine


@pytest.mark.parametrize("first", [0, 3, 5, 7])
def test_a_window_that_begins_with_a_payload_is_known(stored: lossless.Engine, first: int) -> None:
    report = stored.sync(SESSION, said()[first:])
    assert (report.stored, report.abandoned, report.cause) == (0, 0, None)
    assert len(contents(stored)) == len(context(stored)) == 10
    again = stored.sync(SESSION, said()[first:])
    assert (again.stored, again.revised) == (0, 0)


@pytest.mark.parametrize(("then", "now"), [(3, 4), (4, 6), (5, 8), (6, 9), (8, 10)])
def test_a_payload_in_a_tail_that_grew_is_known(stored: lossless.Engine, then: int, now: int) -> None:
    for end in (then, now, 10):
        report = stored.sync(SESSION, said()[:end])
        assert (report.stored, report.abandoned) == (0, 0)
    assert len(contents(stored)) == len(context(stored)) == 10


def test_the_words_of_a_payload_are_kept_whatever_became_of_its_file(stored: lossless.Engine) -> None:
    assert stored.sync(SESSION, said()).revised == 3
    assert "failed code=12369" in stored.archive.messages.get(6).message.content
    assert stored.grep("row-299").total


def test_payloads_in_a_batch_with_entry_ids_are_those_rows(stored: lossless.Engine, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines: list[Raw] = [{"type": "session", "version": 3, "id": "s"}]
    for number, message in enumerate(said()):
        parent = f"e{number - 1}" if number else None
        lines.append({"type": "message", "id": f"e{number}", "parentId": parent, "message": message})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = stored.bootstrap(SESSION, path)
    assert (report.stored, report.stamped) == (0, 10)
    assert stored.append(SESSION, [Incoming(said()[7], entry_id="e7")]).stored == 0


@pytest.mark.parametrize(
    ("number", "other"),
    [
        (3, {"content": "Here is a file:\n<file name='x'>too short</file>"}),
        (5, {"toolCallId": "call_other12345"}),
        (5, {"content": [{"type": "text", "text": LOG + "!"}]}),
        (7, {"content": [{"type": "text", "text": "another"}, said()[7]["content"][1]]}),
        (7, {"role": "assistant"}),
    ],
)
def test_another_payload_is_another_message(stored: lossless.Engine, number: int, other: Raw) -> None:
    row = stored.archive.messages.get(number + 1).message
    assert is_referenced(row, decode(said()[number]))
    assert not is_referenced(row, decode(said()[number] | other))


def test_an_archive_without_payloads_is_not_searched_for_them(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said())
    assert engine.sync(SESSION, said()[3:]).stored == 0
    assert problems(engine) == []

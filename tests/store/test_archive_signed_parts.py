"""What is signed: its part holds the whole block, which lossless-claw gives back to the provider as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.store.archive import Archive
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="k")
THINKING = {"type": "thinking", "thinking": "Berth 7, since the tide is low.", "thinkingSignature": "c2lnbmVk" * 20}
REDACTED = {"type": "thinking", "thinking": "", "thinkingSignature": "ZGF0YQ==" * 9, "redacted": True}
TEXT = {"type": "text", "text": "It uses berth 7.", "textSignature": "msg_0123"}
CALL = {"type": "toolCall", "id": "toolu_0123456789abcd", "name": "read", "arguments": {"path": "berths.txt"}}
MODEL = {"provider": "anthropic", "api": "anthropic-messages", "model": "claude"}


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **MODEL}


MESSAGES = [
    answer(THINKING, CALL),
    answer(REDACTED, THINKING, TEXT),
    answer(TEXT),
    answer({"type": "thinking", "thinking": "Half a sign \ud800.", "thinkingSignature": "x"}, TEXT),
]


def raws(engine: lossless.Engine, message_id: int) -> list[Any]:
    rows = engine.sql("SELECT metadata FROM message_parts WHERE message_id = ? ORDER BY ordinal", (message_id,))
    return [json.loads(row["metadata"]).get("raw") for row in rows]


def test_a_signed_block_stands_whole_in_its_part(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.append(SESSION, MESSAGES)
        assert raws(engine, 1) == [THINKING, None]
        assert raws(engine, 2) == [REDACTED, THINKING, TEXT]
        assert raws(engine, 3) == [TEXT]
        assert raws(engine, 4)[0]["thinking"].startswith("Half a sign ")
        stored = engine.archive.messages.in_order(1)
        assert [one.message.original for one in stored] == MESSAGES
        assert engine.sql("SELECT count(*) AS n FROM message_parts WHERE text_content LIKE '%tide%'") == [{"n": 0}]
        assert engine.verify().ok
        export_lossless_claw(engine.archive, engine.vault, tmp_path / "claw.db")
        export_archive(engine.archive, engine.vault, tmp_path / "x.lossless")
    with Archive.open(tmp_path / "other.db") as other:
        import_archive(tmp_path / "x.lossless", other, None, TransferOptions())
    for name in ("claw.db", "other.db"):
        with lossless.open(tmp_path / name, background=False) as engine:
            assert raws(engine, 2) == [REDACTED, THINKING, TEXT], name
            assert [one.message.original for one in engine.archive.messages.in_order(1)][:3] == MESSAGES[:3], name


@pytest.mark.parametrize(
    ("block", "raw"),
    [
        (
            {"type": "thinking", "thinking": "Low tide.", "signature": "s1"},
            {"type": "thinking", "thinking": "Low tide.", "thinkingSignature": "s1"},
        ),
        (
            {"type": "redacted_thinking", "data": "d1"},
            {"type": "thinking", "thinking": "", "thinkingSignature": "d1", "redacted": True},
        ),
    ],
)
def test_the_blocks_of_anthropic_are_as_lossless_claw_names_them(block: dict[str, Any], raw: dict[str, Any]) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": [block, {"type": "text", "text": "Berth 7."}]}
    with lossless.open(":memory:", background=False) as engine:
        engine.append(SESSION, [message])
        assert raws(engine, 1)[0] == raw
        assert engine.archive.messages.get(1).message.original == message

"""Large payloads through the engine: out of the window, never out of reach."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import lossless

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:files")
PIXEL = base64.b64encode(
    bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000") + bytes(range(200)) * 20
).decode()


def _turn(size: int = 4_000) -> list[dict[str, Any]]:
    rows = "\n".join(f"{n},row {n},{n * 7}" for n in range(size))
    return [
        {"role": "user", "content": "Read the table."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_abcdefghijkl", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_abcdefghijkl", "content": rows},
        {"role": "assistant", "content": "It has three columns."},
    ]


def _open(path: Path) -> lossless.Engine:
    return lossless.open(path / "lcm.db", lossless.Settings(large_file_threshold_tokens=5_000), background=False)


def test_a_large_result_becomes_a_reference_and_comes_back(tmp_path: Path) -> None:
    with _open(tmp_path) as engine:
        engine.append(SESSION, _turn())
        stored = engine.archive.messages.in_order(1, 0, 10)[2]
        assert stored.message.content.startswith("[LCM Tool Output: file_")
        files = list((tmp_path / "lcm-files").rglob("file_*"))
        assert len(files) == 1
        assert files[0].read_text() == _turn()[2]["content"]
        assert engine.verify().problems == ()


def test_the_newest_turn_is_sent_as_it_came(tmp_path: Path) -> None:
    with _open(tmp_path) as engine:
        engine.append(SESSION, _turn())
        sent = engine.assemble(SESSION, budget=200_000, allow_trailing_assistant=True).messages
        assert [json.dumps(message) for message in sent] == [json.dumps(message) for message in _turn()]
        engine.append(SESSION, [{"role": "user", "content": "Thanks."}])
        older = engine.assemble(SESSION, budget=200_000).messages[2]
        assert older["content"].startswith("[LCM Tool Output: file_")


def test_a_picture_is_kept_apart_and_shown_in_its_turn(tmp_path: Path) -> None:
    message: dict[str, Any] = {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ],
    }
    with _open(tmp_path) as engine:
        engine.append(SESSION, [message])
        assert engine.assemble(SESSION, budget=50_000).messages == [message]
        assert PIXEL not in engine.archive.messages.get(1).message.content
        assert engine.verify().ok


def test_replaying_the_originals_stores_nothing(tmp_path: Path) -> None:
    with _open(tmp_path) as engine:
        assert engine.sync(SESSION, _turn()).stored == 4
        assert engine.sync(SESSION, _turn()).stored == 0
        grown = [*_turn(), {"role": "user", "content": "And now?"}]
        assert engine.sync(SESSION, grown).stored == 1
        assert engine.sync(SESSION, grown[1:]).stored == 0
        assert engine.verify().ok


def test_a_missing_file_is_named_and_breaks_nothing(tmp_path: Path) -> None:
    with _open(tmp_path) as engine:
        engine.append(SESSION, _turn())
        for file in (tmp_path / "lcm-files").rglob("file_*"):
            file.unlink()
        outcome = engine.verify()
        assert {problem.check for problem in outcome.problems} == {"files"}
        assert engine.assemble(SESSION, budget=200_000).messages[2]["content"].startswith("[LCM Tool Output: file_")

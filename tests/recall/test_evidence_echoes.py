"""Questions to our own recall tools are kept, and are no evidence: recall finds what was said, not what was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="s")
SOURCE = "The spare key of the boathouse is under the third blue flowerpot behind the shed."
QUESTION = "Where is the spare key of the boathouse?"
FILLER = ["The ferry leaves at nine.", "Priya wrote the invoice.", "We painted the shed green.", "The boat needs oil."]


Given = dict[str, Any]
ASKED: Given = {"question": QUESTION}


def _chat(name: str, given: Given, n: int, answer: str) -> list[Given]:
    function = {"name": name, "arguments": json.dumps(given)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": f"call_{n}", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": answer},
    ]  # fmt: skip


def _anthropic(name: str, given: Given, n: int, answer: str) -> list[Given]:
    call = {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": [{"type": "text", "text": answer}]}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mcp__lossless__lcm_grep", ASKED),
        ("tool_call", {"id": "lcm_recall", "args": ASKED}),
        ("exec", {"command": f"lcm recall '{QUESTION}' | head"}),
    ],
)
@pytest.mark.parametrize("asking", [_chat, _anthropic])
def test_the_source_stays_first_however_often_it_is_asked_for(
    tmp_path: Path, name: str, given: Given, asking: Any
) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": text} for text in (*FILLER, SOURCE, *FILLER)])
        for n in range(8):
            answer = str(engine.recall(QUESTION, session=SESSION))
            assert SOURCE in answer
            engine.append(SESSION, asking(name, given, n, f"{QUESTION}\n{answer}\n{SOURCE} It is the spare key."))
            recalled = engine.recall(QUESTION, session=SESSION)
            assert recalled.evidence[0].text == SOURCE
            assert all(item.role == "user" for item in recalled.evidence)
            for mode, pattern in (("full_text", "spare key boathouse"), ("regex", "spare key of the boathouse")):
                for sort in ("relevance", "recency"):
                    found = engine.grep(pattern, session=SESSION, mode=mode, sort=sort)  # type: ignore[arg-type]
                    assert SOURCE.startswith(found.hits[0].snippet.strip("…")[:20])
                    assert found.hits[0].role == "user"
        shown = engine.grep("boathouse", session=SESSION, mode="full_text", limit=200)
        assert len(shown.hits) >= 17, "they are kept, and found after all others"


@pytest.mark.parametrize(
    "given",
    [{"path": "notes.txt"}, {"command": "grep -rn lcm_recall docs"}, {"command": "lcm status; cat notes.txt"},
     {"name": "lcm_recall.md"}],
)  # fmt: skip
def test_what_other_tools_found_is_evidence(tmp_path: Path, given: Given) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": text} for text in FILLER])
        engine.append(SESSION, _chat("read_file", given, 1, SOURCE))
        assert engine.recall(QUESTION, session=SESSION).evidence[0].text == SOURCE

"""Operators may word the prompts themselves, in a folder that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lossless
from lossless.compaction.summarise import export_templates
from lossless.testing import Scripted
from tests.faults import SESSION

if TYPE_CHECKING:
    from pathlib import Path


def test_compaction_asks_with_the_templates_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    export_templates(folder)
    leaf = folder / "leaf.md"
    leaf.write_text(leaf.read_text() + "\nWrite like a ship's log.\n")
    model = Scripted()
    settings = lossless.Settings(prompt_dir=str(folder), fresh_tail_count=4, leaf_chunk_tokens=2000)
    with lossless.open(tmp_path / "lcm.db", settings, model, background=False) as engine:
        said = [{"role": "user" if n % 2 else "assistant", "content": f"word{n} " * 300} for n in range(20)]
        engine.append(SESSION, said)
        assert engine.compact(SESSION, force=True).summary_ids
    assert model.calls
    assert any("Write like a ship's log." in call.prompt.user for call in model.calls)

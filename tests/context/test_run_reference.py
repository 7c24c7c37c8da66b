"""Prompts over databases that lossless-claw wrote, beside those that it assembled itself.

They are not part of the repository: LOSSLESS_FIXTURES names the folder that holds them.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import lossless
from lossless.formats.synthetic import render_summary
from lossless.testing import Scripted
from tests.compaction.loop_kit import rows, size
from tests.compaction.providers import FORMATS, accepted_by_sdk, complaints

Raw = dict[str, Any]
FOLDER = os.environ.get("LOSSLESS_FIXTURES")
pytestmark = pytest.mark.skipif(not FOLDER, reason="LOSSLESS_FIXTURES names no folder")
#: Under which session, with how many messages in the fresh tail, a database was made.
SMALL = ("small-0.15.3.db", "agent:main:main", 8)
BOOTSTRAP = ("bootstrap56/lcm.db", "agent:main:telegram:42", 4)


def assembled(tmp_path: Path, made: tuple[str, str, int], budget: int) -> list[Raw]:
    """What we assemble from a copy of a database; the host delivers its prompt apart, as the reference was told."""
    name, key, tail = made
    path = tmp_path / "lcm.db"
    shutil.copyfile(Path(FOLDER or "") / name, path)
    settings = lossless.Settings(fresh_tail_count=tail, fresh_tail_max_tokens=-1, evidence=False)
    with lossless.open(path, settings, background=False) as engine:
        session = lossless.Session(key=key)
        prompt = engine.assemble(session, budget=budget, format="openclaw", allow_trailing_assistant=True)
        assert_whole(engine)
        return prompt.messages


def assert_whole(engine: lossless.Engine) -> None:
    """Nothing is wrong but the large files, which did not come along with the databases."""
    errors = [problem for problem in engine.verify().problems if problem.severity == "error"]
    assert [problem for problem in errors if problem.check != "files"] == []


def reference(name: str) -> list[Raw]:
    found: list[Raw] = json.loads((Path(FOLDER or "") / name).read_text("utf-8"))["messages"]
    return found


@pytest.mark.parametrize(
    ("made", "budget", "name"),
    [(SMALL, 20_000, "small.assembled.A.20k.json"), (BOOTSTRAP, 100_000, "bootstrap56/assembled.json")],
)
def test_what_fits_is_what_the_reference_sends(
    tmp_path: Path, made: tuple[str, str, int], budget: int, name: str
) -> None:
    """Every message, with its blocks, signatures, times, synthetic results and usage."""
    assert assembled(tmp_path, made, budget) == reference(name)


def test_where_it_is_tight_the_widest_summary_stays_as_well(tmp_path: Path) -> None:
    """The reference leaves out all summaries, the oldest first, and then has 481 of 4,000 tokens to spare."""
    root, *rest = assembled(tmp_path, SMALL, 4_000)
    assert rest == reference("small.assembled.A.4k.json")
    assert root == reference("small.assembled.A.20k.json")[0]
    assert 'depth="3"' in root["content"]


def test_every_summary_reads_as_the_reference_renders_it(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    shutil.copyfile(Path(FOLDER or "") / SMALL[0], path)
    shown = [m["content"] for m in reference("small.assembled.A.20k.json") if str(m["content"]).startswith("<summary")]
    with lossless.open(path, background=False) as engine:
        for text in shown:
            summary_id = text.split('"')[1]
            assert render_summary(engine.archive.summaries.get(summary_id)) == text
    assert len(shown) == 3


@pytest.mark.parametrize(
    "name",
    [
        "small-0.15.3.db",
        "small-1.0.0-beta.4.db",
        "host-2026.7.1-0.15.3.db",
        "host-2026.9.6-1.0.0-beta.4.db",
        "bootstrap56/lcm.db",
    ],
)
def test_the_loop_goes_on_where_the_reference_stopped(tmp_path: Path, name: str) -> None:
    path = tmp_path / "lcm.db"
    shutil.copyfile(Path(FOLDER or "") / name, path)
    settings = lossless.Settings(fresh_tail_count=4, leaf_chunk_tokens=3_000, evidence=False)
    with lossless.open(path, settings, Scripted(), background=False) as engine:
        engine.admin.run_pending()
        for (id_,) in rows(engine, "SELECT conversation_id FROM conversations WHERE active = 1"):
            conversation = engine.archive.conversations.get(id_)
            engine.compact(conversation, budget=4_000, until=1_000, force=True)
            assert engine.compact(conversation, budget=4_000, force=True).ok
            for format in FORMATS:
                prompt = engine.assemble(conversation, budget=4_000, format=format)
                assert complaints(prompt.messages, format) == []
                accepted_by_sdk(prompt.messages, format)
                assert size(prompt.messages) <= 4_000
        assert_whole(engine)

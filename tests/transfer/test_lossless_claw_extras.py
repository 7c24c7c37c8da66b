"""An archive of ours in lossless-claw's shape: it opens in place, comes back, and nothing of it is lost."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from lossless.testing.strategies import anthropic_messages, openai_chat_messages, openclaw_messages
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.pages import export_pages

from .claws import rows
from .moves import bring, said, to_claw, to_file, vault
from .test_archive_file import fill

#: What a file says of itself and of the machine, not of conversations, and counts that are made again when needed.
_OF_THE_FILE = ("storage_uri", "createdAt", "sha256", "context_tokens", "context_extra", "context_seq")
WIRES = {"openai-chat": openai_chat_messages, "anthropic": anthropic_messages, "openclaw": openclaw_messages}


def everything(path: Path) -> list[dict[str, Any]]:
    """All lines of a whole archive as JSON."""
    file = path.with_suffix(".jsonl")
    to_file(path, file, overwrite=True)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    return [{name: value for name, value in line.items() if name not in _OF_THE_FILE} for line in lines]


def messages(path: Path, folder: Path) -> dict[str, list[str]]:
    """The messages as they came, file by file."""
    with Archive.open(path, read_only=True) as archive:
        report = export_pages(archive, vault(path), folder, "jsonl", TransferOptions())
    return {name: (folder / name).read_text().splitlines() for name in report.files}


def check_same(source: Path, folder: Path) -> None:
    """Out as lossless-claw has it, then into an empty archive, and opened in place: all the same."""
    was = everything(source)
    claw = folder / "claw" / "lcm.db"
    to_claw(source, claw)
    bring("claw", claw, folder / "back" / "lcm.db")
    assert everything(folder / "back" / "lcm.db") == was
    assert messages(folder / "back" / "lcm.db", folder / "b") == messages(source, folder / "a")
    with Archive.open(claw) as opened:
        assert [str(one) for one in verify_archive(opened, vault=vault(claw)).problems if one.severity == "error"] == []
    assert everything(claw) == was


def test_an_archive_with_everything_in_it(tmp_path: Path) -> None:
    source = tmp_path / "full.db"
    fill(source)
    check_same(source, tmp_path)
    plain = tmp_path / "plain.db"
    to_claw(source, plain, plain=True)
    assert said(plain) == said(source)
    assert rows(plain, "SELECT count(*) FROM sqlite_master WHERE name IN ('pins', 'message_extras')") == [(0,)]


@st.composite
def windows(draw: st.DrawFn) -> list[tuple[str, list[dict[str, Any]]]]:
    """Messages in the shapes of several providers, with fields that nobody knows."""
    found = []
    for wire in draw(st.lists(st.sampled_from(sorted(WIRES)), min_size=1, max_size=2, unique=True)):
        said_ = draw(st.lists(WIRES[wire](), min_size=1, max_size=4))
        odd = draw(st.dictionaries(st.sampled_from(["mood", "x-id"]), st.integers() | st.text(max_size=5), max_size=1))
        found.append((wire, [one | odd for one in said_]))
    return found


@settings(max_examples=3)
@given(given_windows=windows(), data=st.data())
def test_any_messages(given_windows: list[tuple[str, list[dict[str, Any]]]], data: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "lcm.db"
        chosen = lossless.Settings(large_files_dir=str(vault(source).root), fresh_tail_count=1, leaf_min_fanout=2)
        with lossless.open(source, chosen, background=False) as engine:
            for wire, window in given_windows:
                session = lossless.Session(key=f"key {wire}")
                engine.append(session, window, key=data.draw(st.none() | st.just("k")))
                if data.draw(st.booleans()):
                    engine.pin(session, "keep this")
                if data.draw(st.booleans()):
                    engine.compact(session, budget=4_000, force=True)
                if data.draw(st.booleans()):
                    engine.new(session)
        check_same(source, folder)


@pytest.mark.parametrize("plain", [False, True])
def test_it_goes_on_where_it_was(tmp_path: Path, plain: bool) -> None:
    """A host's window is recognised in the file that came back, so nothing is stored twice."""
    session, window = (
        lossless.Session(key="k"),
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    )
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.sync(session, window)
    to_claw(tmp_path / "lcm.db", tmp_path / "claw.db", plain=plain)
    with lossless.open(tmp_path / "claw.db", background=False) as engine:
        assert engine.sync(session, [*window, {"role": "user", "content": "c"}]).stored == 1
        assert len(engine.assemble(session, budget=8_000).messages) == 3

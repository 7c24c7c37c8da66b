"""The payloads of a backup: all of them come back, and keeping many of them is quick."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.files.vault import Vault
from lossless.maintenance import backup
from lossless.maintenance.backup import backup_folder, restore_payloads
from lossless.model.identity import file_id
from lossless.model.messages import StoredFile
from tests.maintenance.keeping import NOW, open_engine

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


def vault_of(engine: lossless.Engine) -> Vault:
    assert engine.vault is not None
    return engine.vault


def keep(engine: lossless.Engine, payloads: Iterable[tuple[int, int]]) -> None:
    """Payloads, each with its row: conversations and what is in them."""
    files = []
    for conversation_id, number in sorted(payloads):
        data = str(number).encode()
        id_ = file_id(conversation_id, data)
        place = vault_of(engine).path(conversation_id, id_, "txt")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        files.append(StoredFile(id_, conversation_id, "a.txt", "text/plain", len(data), 1, str(place), None, NOW))
    with engine.archive.writing():
        engine.archive.files.add(files)


def talk(engine: lossless.Engine, conversations: int) -> None:
    for n in range(conversations):
        engine.append(lossless.Session(key=f"k{n}"), [{"role": "user", "content": "x"}])


def test_making_payloads_durable_takes_no_longer_the_more_there_are(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    flush, flush_all = os.fsync, os.sync

    def one(handle: int) -> None:
        waits.append("one")
        flush(handle)

    def everything() -> None:
        waits.append("all")
        flush_all()

    monkeypatch.setattr(os, "fsync", one)
    monkeypatch.setattr(os, "sync", everything)
    counted = []
    with open_engine(path) as engine:
        talk(engine, 20)
        for payloads in (
            [(1, 0)],
            [(1, n) for n in range(1, 90)],
            [(c, n) for c in range(1, 21) for n in range(90, 95)],
        ):
            keep(engine, payloads)
            waits.clear()
            files = engine.backup().files
            counted.append((files, len(waits)))
    assert [files for files, _ in counted] == [1, 90, 190]
    assert max(count for _, count in counted) == counted[0][1]


@settings(max_examples=8, deadline=None)
@given(
    kept=st.sets(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=8),
    gone=st.sets(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=8),
    later=st.sets(st.tuples(st.integers(1, 3), st.integers(6, 9)), max_size=4),
)
def test_every_payload_of_a_backup_comes_back(
    kept: set[tuple[int, int]], gone: set[tuple[int, int]], later: set[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lcm.db"
        with open_engine(path) as engine:
            talk(engine, 3)
            keep(engine, kept)
            made = engine.admin.copy("undo")
            keep(engine, later)
            missing = [
                place
                for file in engine.archive.files.listed()
                if (file.conversation_id, int((place := Path(file.storage_uri)).read_bytes())) in gone
            ]
            for place in missing:
                place.unlink()
            vault = vault_of(engine)
        assert backup.restore_backup(made.path, str(path), lambda _: [], NOW, vault=vault).files == len(missing)
        with open_engine(path) as engine:
            found = {(file.conversation_id, int(vault.read(file).data)) for file in engine.archive.files.listed()}
            assert found == kept


def test_what_is_no_payload_is_neither_kept_nor_brought_back(path: Path) -> None:
    with open_engine(path) as engine:
        talk(engine, 1)
        keep(engine, [(1, 1), (1, 2), (1, 3)])
        first, second, third = sorted(vault_of(engine).root.glob("1/*"))
        second.unlink()
        second.symlink_to(first)
        third.unlink()
        third.mkdir()
        made = engine.backup()
        assert made.files == 1
        (beside,) = backup_folder(made.path).glob("*/*")
        assert beside.name == first.name
    other = Vault(path.parent / "other")
    (beside.parent / "link").symlink_to(first)
    (backup_folder(made.path) / "2").symlink_to(beside.parent)
    assert restore_payloads(made.path, other) == 1
    assert [place.name for place in other.root.glob("*/*")] == [first.name]

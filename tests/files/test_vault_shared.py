"""Folders of payloads: one for each archive; what several share is collected against all of them, or not at all."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from lossless.files.vault import delete_orphans, set_users, vault_users
from lossless.maintenance import prune
from lossless.maintenance.prune import files_of_other_archives
from lossless.model.conversations import Session
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "a line of a very long log\n" * 9_000
SESSION = Session(key="agent:main:main")


def fill(path: Path, text: str = TEXT, folder: Path | None = None) -> None:
    """An archive with one payload that left its message."""
    settings = lossless.Settings(large_files_dir=None if folder is None else str(folder))
    with lossless.open(path, settings, background=False) as engine:
        call: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        engine.append(
            SESSION,
            [
                {"role": "user", "content": "read it"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": text},
            ],
        )


def payloads(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("file_*")}


def gc(path: Path, folder: Path | None = None) -> list[str]:
    """What `lcm files gc --apply` does, for files of any age."""
    settings = lossless.Settings(large_files_dir=None if folder is None else str(folder))
    with lossless.open(path, settings, background=False) as engine:
        vault = engine.vault
        assert vault is not None
        others = files_of_other_archives(engine.archive, vault)
        found = vault.orphans(engine.archive.files.ids() | others, -1)
        with engine.archive.writing():
            return [orphan.file_id for orphan in delete_orphans(vault, found, engine.archive.files.ids() | others)]


def read(path: Path, folder: Path | None = None) -> bytes:
    settings = lossless.Settings(large_files_dir=None if folder is None else str(folder))
    with lossless.open(path, settings, background=False) as engine:
        assert engine.vault is not None
        assert engine.verify().ok
        (file,) = engine.archive.files.many(engine.archive.files.ids()).values()
        return engine.vault.read(file).data


def test_each_archive_has_a_folder_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path / "lcm.db")
    fill(tmp_path / "work.db", TEXT + "more")
    fill(tmp_path / "work.sqlite", TEXT + "and more")
    names = [payloads(tmp_path / name) for name in ("lcm-files", "work-files", "work.sqlite-files")]
    assert [len(one) for one in names] == [1, 1, 1]
    for name in ("lcm.db", "work.db", "work.sqlite"):
        assert gc(tmp_path / name) == []
        assert read(tmp_path / name).startswith(b"a line")


def test_a_folder_that_two_archives_name_is_collected_against_both(tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    fill(tmp_path / "one" / "lcm.db", TEXT, folder)
    fill(tmp_path / "two" / "lcm.db", TEXT + "more", folder)
    left = folder / "1" / "file_00000000000000aa.txt"
    left.write_text("left by a crash")
    assert len(payloads(folder)) == 3
    assert gc(tmp_path / "one" / "lcm.db", folder) == ["file_00000000000000aa"]
    assert gc(tmp_path / "two" / "lcm.db", folder) == []
    assert read(tmp_path / "two" / "lcm.db", folder).endswith(b"more")
    # what one archive forgets, the other may still have
    fill(tmp_path / "two" / "lcm.db", TEXT, folder)
    with Archive.open(tmp_path / "one" / "lcm.db") as archive, archive.writing():
        archive.database.run("DELETE FROM large_files")
    assert gc(tmp_path / "one" / "lcm.db", folder) == []
    # one that is gone might come back: nothing is done until somebody says that it is gone
    shutil.move(tmp_path / "two", tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"two.lcm\.db.* cannot be read"):
        gc(tmp_path / "one" / "lcm.db", folder)
    set_users(folder, [str(tmp_path / "one" / "lcm.db")])
    assert len(gc(tmp_path / "one" / "lcm.db", folder)) == 2


def test_an_old_folder_is_left_alone_until_somebody_says_whose_it_is(tmp_path: Path) -> None:
    old = tmp_path / "lcm-files"
    fill(tmp_path / "lcm.db", TEXT, old)
    fill(tmp_path / "work.db", TEXT + "more", old)  # as it was when all archives of a folder shared one
    shutil.rmtree(old / "archives")
    assert len(payloads(old)) == 2
    assert read(tmp_path / "work.db").endswith(b"more")  # it is read where it lies
    with pytest.raises(BadInput, match="--used-by"):
        gc(tmp_path / "lcm.db")
    fill(tmp_path / "lcm.db", TEXT + "new")  # using it does not make it known
    assert not vault_users(old)[1]
    with pytest.raises(BadInput, match="--used-by"):
        gc(tmp_path / "lcm.db")
    set_users(old, [str(tmp_path / "lcm.db"), str(tmp_path / "work.db")])
    assert gc(tmp_path / "lcm.db") == []
    assert read(tmp_path / "work.db").endswith(b"more")


def test_what_is_pruned_in_one_archive_stays_for_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    for name in ("one.db", "two.db"):
        fill(tmp_path / name, TEXT, folder)  # the same bytes in conversations of the same number: one file
    assert len(payloads(folder)) == 1
    with lossless.open(tmp_path / "one.db", lossless.Settings(large_files_dir=str(folder))) as engine:
        work = engine.admin.prune_plan(prune.PruneFilter(patterns=("agent:**",), include_active=True))
        report = engine.admin.prune(work, backup=False)
        assert (report.conversations, report.files) == (1, 0)
    assert read(tmp_path / "two.db", folder).decode() == TEXT


def test_an_archive_and_its_folder_may_be_moved_together(tmp_path: Path) -> None:
    fill(tmp_path / "here" / "lcm.db")
    os.rename(tmp_path / "here", tmp_path / "there")
    assert gc(tmp_path / "there" / "lcm.db") == []
    ((user,), _) = vault_users(tmp_path / "there" / "lcm-files")
    assert user == tmp_path / "there" / "lcm.db"

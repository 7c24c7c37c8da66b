"""Bytes on disk: written whole or not at all, read without leaving the root."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import ArchiveDenied, ArchiveError, BadInput, NotFound
from lossless.files.vault import Vault
from lossless.model.identity import file_id
from lossless.model.messages import StoredFile

NOW = datetime(2026, 1, 5, tzinfo=UTC)
posix = pytest.mark.skipif(os.name != "posix", reason="links and permissions of POSIX")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "files")


def stored(vault: Vault, data: bytes, conversation_id: int = 1, extension: str = "txt") -> StoredFile:
    id_ = file_id(conversation_id, data)
    place = vault.write(conversation_id, id_, extension, data)
    return StoredFile(id_, conversation_id, "a.txt", "text/plain", len(data), None, str(place), None, NOW)


# --- writing ------------------------------------------------------------------------------------


def test_a_file_lies_where_lossless_claw_would_put_it(vault: Vault) -> None:
    file = stored(vault, b"words", conversation_id=12, extension="csv")
    assert Path(file.storage_uri) == vault.root / "12" / f"{file.id}.csv"
    assert Path(file.storage_uri).read_bytes() == b"words"
    assert vault.read(file).data == b"words"


def test_writing_again_changes_nothing(vault: Vault) -> None:
    file = stored(vault, b"words" * 1000)
    path = Path(file.storage_uri)
    before = path.stat()
    os.utime(path, (1, 1))
    assert stored(vault, b"words" * 1000) == file
    after = path.stat()
    assert after.st_ino == before.st_ino
    assert after.st_mtime > 1  # it is young again, so that nobody collects it
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_damaged_file_is_written_anew(vault: Vault) -> None:
    file = stored(vault, b"words")
    Path(file.storage_uri).write_bytes(b"wor")
    stored(vault, b"words")
    assert vault.read(file).data == b"words"


@posix
def test_payloads_are_private(vault: Vault) -> None:
    path = Path(stored(vault, b"secret").storage_uri)
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_nothing_is_left_behind_when_a_write_fails(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(vault, b"first")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArchiveError, match="the disk is full"):
        stored(vault, b"second")
    monkeypatch.undo()
    assert len(list((vault.root / "1").iterdir())) == 1


@pytest.mark.parametrize(
    ("id_", "extension"),
    [
        ("../../etc/passwd", "txt"),
        ("file_0123456789abcdef/../x", "txt"),
        ("file_0123456789ABCDEF", "txt"),
        ("file_0123456789abcdef", "../x"),
        ("file_0123456789abcdef", ""),
        ("file_0123456789abcdef\n", "txt"),
        ("", "txt"),
    ],
)
def test_a_name_cannot_lead_out_of_the_vault(vault: Vault, id_: str, extension: str) -> None:
    with pytest.raises(BadInput, match="not the name of a payload"):
        vault.write(1, id_, extension, b"x")
    assert not vault.root.exists()


@posix
def test_a_linked_folder_is_not_written_into(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    vault.root.mkdir()
    (vault.root / "1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveDenied, match="link"):
        stored(vault, b"words")
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- reading ------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("place", ["file", "folder", "deep"])
def test_links_are_not_followed(vault: Vault, tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    file = stored(vault, b"words")
    path = Path(file.storage_uri)
    (secret / path.name).write_bytes(b"secret")
    path.unlink()
    if place == "file":
        path.symlink_to(secret / path.name)
    elif place == "folder":
        path.parent.rmdir()
        path.parent.symlink_to(secret)
    else:
        (path.parent / "deep").symlink_to(secret)
        file = replace(file, storage_uri=str(path.parent / "deep" / path.name))
    with pytest.raises(ArchiveDenied, match="links are not followed"):
        vault.read(file)


@posix
def test_the_root_itself_may_be_a_link(vault: Vault, tmp_path: Path) -> None:
    file = stored(vault, b"words")
    (tmp_path / "link").symlink_to(vault.root)
    assert Vault(tmp_path / "link").read(file).data == b"words"
    assert (
        vault.read(replace(file, storage_uri=str(tmp_path / "link" / "1" / Path(file.storage_uri).name))).data
        == b"words"
    )


@pytest.mark.parametrize(
    "place",
    [
        "/etc/passwd",
        "{root}/../secret.txt",
        "{root}/1/../../secret.txt",
        "{root}-other/1/x.txt",
        "../../etc/passwd",
        "secret.txt",
        "",
        "{root}/1/\0x",
        "file:///etc/passwd",
    ],
)
def test_places_outside_are_refused(vault: Vault, tmp_path: Path, place: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    file = replace(stored(vault, b"words"), storage_uri=place.format(root=vault.root))
    with pytest.raises(ArchiveDenied, match="outside"):
        vault.read(file)


def test_a_vault_that_moved_is_found_again(vault: Vault) -> None:
    file = stored(vault, b"words")
    name = Path(file.storage_uri).name
    for place in (f"/home/user/.openclaw/lcm-files/1/{name}", f"C:\\Users\\u\\lcm-files\\1\\{name}"):
        assert vault.read(replace(file, storage_uri=place)).data == b"words"


def test_a_missing_file_is_said(vault: Vault) -> None:
    file = stored(vault, b"words")
    Path(file.storage_uri).unlink()
    with pytest.raises(NotFound, match=f"no stored bytes of file '{file.id}'"):
        vault.read(file)
    with pytest.raises(NotFound):
        Vault(vault.root / "nowhere").read(file)


@posix
def test_only_regular_files_are_read(vault: Vault) -> None:
    file = stored(vault, b"words")
    path = Path(file.storage_uri)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArchiveDenied, match="not a regular file"):
        vault.read(file)
    path.unlink()
    path.mkdir()
    with pytest.raises(ArchiveError):
        vault.read(file)


def test_ranges(vault: Vault) -> None:
    file = stored(vault, b"0123456789")
    piece = vault.read(file, 3, 4)
    assert (piece.data, piece.start, piece.end, piece.total, piece.is_cut) == (b"3456", 3, 7, 10, True)
    assert vault.read(file, 8, 100).data == b"89"
    assert vault.read(file, 99).data == b""
    assert vault.read(file, 0, 0).data == b""
    for start, length in ((-1, 1), (0, -1)):
        with pytest.raises(BadInput):
            vault.read(file, start, length)


@settings(deadline=None, max_examples=20)
@given(text=st.text(alphabet="aé你😀\n", min_size=1, max_size=60), size=st.integers(4, 20))
def test_no_character_is_cut_in_two(text: str, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    vault = Vault(tmp_path_factory.getbasetemp() / "cuts")
    file = stored(vault, text.encode())
    pieces: list[str] = []
    at = 0
    while True:
        piece = vault.read_text(file, at, size)
        pieces.append(piece.data.decode())
        at = piece.end
        if not piece.is_cut:
            break
    assert "".join(pieces) == text


def test_a_range_that_begins_inside_of_a_character_begins_behind_it(vault: Vault) -> None:
    file = stored(vault, "你好".encode())
    piece = vault.read_text(file, 1)
    assert (piece.text, piece.start) == ("好", 3)


def test_bytes_that_are_no_text_are_shown_somehow(vault: Vault) -> None:
    piece = vault.read_text(stored(vault, b"\x80\xff\xfe" * 10), 2, 9)
    assert "\ufffd" in piece.text


# --- what nobody refers to ------------------------------------------------------------------------


def test_orphans_are_files_without_a_row(vault: Vault) -> None:
    known, orphan = stored(vault, b"known"), stored(vault, b"orphan", 2)
    (vault.root / "notes.txt").write_text("not ours")
    (vault.root / "1" / "notes.txt").write_text("not ours")
    unfinished = vault.root / "1" / f".{known.id}.0123456789abcdef.tmp"
    unfinished.write_bytes(b"half")
    assert vault.orphans({known.id}) == []  # all of them are young
    found = vault.orphans({known.id}, min_age_seconds=-1)
    assert {item.path for item in found} == {Path(orphan.storage_uri), unfinished}
    for item in found:
        vault.remove(item)
        vault.remove(item)
    assert vault.orphans({known.id}, min_age_seconds=-1) == []
    assert vault.read(known).data == b"known"
    assert sorted(path.name for path in (vault.root / "1").iterdir()) == [Path(known.storage_uri).name, "notes.txt"]


def test_a_vault_that_is_not_there_has_no_orphans(tmp_path: Path) -> None:
    assert Vault(tmp_path / "nowhere").orphans(set(), -1) == []


@posix
def test_links_are_no_orphans(vault: Vault, tmp_path: Path) -> None:
    stored(vault, b"words")
    (tmp_path / "other").mkdir()
    (vault.root / "1" / "file_0123456789abcdef.txt").symlink_to(tmp_path / "other")
    (vault.root / "3").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "file_0123456789abcdee.txt").write_text("x")
    assert len(vault.orphans(set(), -1)) == 1


def test_ten_megabytes_come_back(vault: Vault) -> None:
    data = os.urandom(10_000_000)
    file = stored(vault, data)
    assert vault.read(file).data == data

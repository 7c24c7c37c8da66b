"""`engine.transfer`: every import and export, by plain values, from one engine to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.store.bundles import BundleReader

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("archive", "lossless_claw", "remnic")


def talk(path: Path) -> lossless.Engine:
    """An archive with two sessions."""
    engine = lossless.open(path)
    for session, count in (("s1", 3), ("s2", 2)):
        engine.append(session, [{"role": "user", "content": f"{session}, word {n}"} for n in range(count)])
    return engine


def words(engine: lossless.Engine) -> list[list[str]]:
    """What was said in each conversation."""
    ids = [one["conversation_id"] for one in BundleReader(engine.archive.database).conversations()]
    return sorted([said.message.content for said in engine.archive.messages.in_order(id_)] for id_ in ids)


@pytest.mark.parametrize("name", FORMATS)
def test_what_goes_out_comes_in_again_once(tmp_path: Path, name: str) -> None:
    target = tmp_path / "out" / "file"
    with talk(tmp_path / "a.db") as source, lossless.open(tmp_path / "b.db") as copy:
        getattr(source.transfer, f"export_{name}")(target)
        bring = getattr(copy.transfer, f"import_{name}")
        assert bring(target, dry_run=True).messages_inserted == 5
        assert words(copy) == []
        assert bring(target, sessions=["s2"]).messages_inserted == 2
        assert bring(target).messages_inserted == 3
        assert bring(target).messages_inserted == 0
        assert words(copy) == words(source)


def test_pages_are_chosen_and_come_in_as_transcripts(tmp_path: Path) -> None:
    with talk(tmp_path / "a.db") as source, lossless.open(tmp_path / "b.db") as copy:
        assert source.transfer.export_pages(tmp_path / "md", "markdown", sessions=["s1"]).messages == 3
        report = source.transfer.export_jsonl(tmp_path / "lines")
        files = [tmp_path / "lines" / name for name in report.files]
        tried = copy.transfer.import_transcripts("jsonl", files, dry_run=True)
        assert ([one.status for one in tried], words(copy)) == (["would-import"] * 2, [])
        assert [one.messages for one in copy.transfer.import_transcripts("jsonl", files)] == [3, 2]
        assert {one.status for one in copy.transfer.import_transcripts("jsonl", files)} == {"up-to-date"}


def test_another_database_goes_to_remnic_without_this_archive(tmp_path: Path) -> None:
    with talk(tmp_path / "a.db") as source, lossless.open(tmp_path / "b.db") as other:
        source.transfer.export_lossless_claw(tmp_path / "claw.db")
        report = other.transfer.export_remnic(tmp_path / "remnic.db", source=tmp_path / "claw.db")
        assert (report.messages_inserted, words(other)) == (5, [])

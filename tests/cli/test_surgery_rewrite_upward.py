"""A new text so short that what was made of it would be the larger one: written anew as well, or refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lossless.model.context import EXTRACTIVE_MODEL
from lossless.store.archive import Archive
from lossless.store.maintenance.surgery import SurgeryWrites
from tests.maintenance.surgery_kit import HERE

from .conftest import sound, sql

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", HERE.key)
OTHER = "other/model"


@pytest.fixture
def terse(tmp_path: Path) -> tuple[str, str]:
    """A model, as options, that never says the same and never says much."""
    place = tmp_path / "terse"
    place.write_text("#!/bin/sh\ncat > /dev/null\necho Ferry $$.\n")
    place.chmod(0o755)
    return ("--model", f"command/{place}")


@pytest.fixture
def leaf(folded: Path) -> str:
    """A leaf that says nothing; all above it was written by a model, and is only just smaller than its sources."""
    used = "SELECT parent_summary_id FROM summary_parents"
    leaves = f"SELECT summary_id FROM summaries WHERE depth = 0 AND summary_id IN ({used})"
    id_ = str(sql(folded, f"{leaves} ORDER BY token_count DESC, content")[0][0])
    with Archive.open(folded) as archive, archive.writing():
        archive.database.run("UPDATE summaries SET model = ?", (OTHER,))
        operations = SurgeryWrites(archive)
        above = operations.above([id_])
        assert len(above) > 2
        for user in above[1:]:
            size = operations.source_tokens(user) - 1
            sql_ = "UPDATE summaries SET token_count = ? WHERE summary_id = ?"
            archive.database.run(sql_, (size, user))
        operations.recount(above)
        operations.write(id_, "", archive.summaries.get(id_).tokens, OTHER, ())
        archive.database.run("DELETE FROM ingest_state")
    return id_


def above(path: Path, leaf: str) -> list[str]:
    with Archive.open(path, read_only=True) as archive:
        return SurgeryWrites(archive).above([leaf])


def summaries(path: Path) -> list[tuple[object, ...]]:
    return sql(path, "SELECT * FROM summaries ORDER BY summary_id")


def test_a_repair_writes_what_was_made_of_it_as_well(lcm: Lcm, folded: Path, leaf: str, terse: tuple[str, str]) -> None:
    before = summaries(folded)
    assert [one["kind"] for one in lcm("doctor", "--offline").data["findings"]] == ["summary.empty"]
    (done,) = lcm("repair", *NAMED, "--apply", *terse).items
    assert [target["id"] for target in done["plan"]["targets"]] == [leaf]
    assert done["done"]["summaryIds"] == above(folded, leaf)
    assert [bool(draft["because"]) for draft in done["drafts"]] == [False, *[True] * (len(done["drafts"]) - 1)]
    assert leaf in done["drafts"][1]["because"]
    assert lcm("doctor", "--offline").data["findings"] == []
    sound(lcm)
    lcm("undo", *NAMED, "--apply")
    assert summaries(folded) == before


def test_a_person_sees_why_another_one_was_written(lcm: Lcm, leaf: str, terse: tuple[str, str]) -> None:
    shown = " ".join(lcm("repair", *NAMED, "--apply", "--format", "table", *terse).out.split())
    assert f"Also rewritten: with {leaf}, which it was made of" in shown
    assert "as before" not in shown


def test_a_refusal_names_the_command_that_helps(lcm: Lcm, folded: Path, leaf: str, terse: tuple[str, str]) -> None:
    before = summaries(folded)
    one = ("rewrite", *NAMED, "--summary", leaf)
    refused = lcm(*one, "--apply", *terse)
    assert (refused.code, refused.envelope["ok"]) == (1, False)
    (draft,) = refused.envelope["data"]["items"][0]["drafts"]
    assert draft["breaks"] == above(folded, leaf)[1]
    assert summaries(folded) == before
    shown = " ".join(lcm(*one, "--apply", "--format", "table", *terse).out.split())
    assert f"{leaf} was not changed: {draft['breaks']}, which was made of it, would no longer be smaller" in shown
    assert "1 of 1 summary stays as before; why is said above." in shown
    (command,) = re.findall(r"`lcm ([^`]+)`", draft["refusal"])
    (done,) = lcm(*command.split(), *terse).items
    assert done["done"]["summaryIds"] == above(folded, leaf)
    sound(lcm)


def test_without_a_model_what_a_model_wrote_is_left_alone(lcm: Lcm, folded: Path, leaf: str) -> None:
    with Archive.open(folded) as archive, archive.writing():  # its text will be shorter than its place says
        archive.database.run("UPDATE summaries SET token_count = token_count * 2 WHERE summary_id = ?", (leaf,))
        user = SurgeryWrites(archive).above([leaf])[1]
        size = SurgeryWrites(archive).source_tokens(user) - 1
        archive.database.run("UPDATE summaries SET token_count = ? WHERE summary_id = ?", (size, user))
        SurgeryWrites(archive).recount([leaf])
    refused = lcm("repair", *NAMED, "--apply")
    assert refused.code == 1
    (draft,) = refused.envelope["data"]["items"][0]["drafts"]
    assert draft["breaks"] == user
    assert "stays as before" in lcm("repair", *NAMED, "--apply", "--format", "table").out
    (command,) = re.findall(r"`lcm ([^`]+)`", draft["refusal"])
    lcm(*command.split())
    assert (
        sql(folded, f"SELECT model FROM summaries WHERE summary_id IN ('{leaf}', '{user}')")
        == [(EXTRACTIVE_MODEL,)] * 2
    )
    assert lcm("repair", *NAMED).data["targets"] == 0

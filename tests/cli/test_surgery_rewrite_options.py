"""What `rewrite` and `repair` let a person say about the writing: times, zone, which summaries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lossless.compaction.source_text import FALLBACK_MARKER
from lossless.store.maintenance.surgery import SurgeryWrites
from tests.maintenance.surgery_kit import HERE, THERE, open_engine, told

from .conftest import sound, sql

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", HERE.key)
HEADER = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d \S+ (?:\| |- )", re.MULTILINE)


@pytest.fixture
def broken(folded: Path) -> Path:
    """Two conversations that are folded; a leaf of each is what a fallback left."""
    with open_engine(folded) as engine:
        told(engine, session=THERE)
        for id_ in (1, 2):
            leaf = engine.archive.listings.summaries(1, conversation_id=id_, depth=0).rows[0]
            with engine.archive.writing():
                text = f"{FALLBACK_MARKER}\n{leaf.content[:200]}"
                SurgeryWrites(engine.archive).write(leaf.summary_id, text, leaf.token_count, "emergency-fallback", ())
    return folded


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    """What the model of `model` was told."""
    return tmp_path / "heard"


@pytest.fixture
def model(tmp_path: Path, heard: Path) -> tuple[str, str]:
    """A model, as options, that writes down what it is told."""
    place = tmp_path / "listener"
    words = " ".join(f"ferry{n} berth{n}" for n in range(24))
    place.write_text(f"#!/bin/sh\ncat >> {heard}\necho '{words}'\necho 'Expand for details about: all'\n")
    place.chmod(0o755)
    return ("--model", f"command/{place}")


def test_a_model_reads_times_in_a_zone_or_none(lcm: Lcm, broken: Path, heard: Path, model: tuple[str, str]) -> None:
    before = sql(broken, "SELECT * FROM summaries")
    all_ = ("rewrite", *NAMED, "--all", "--diff", *model)
    lcm(*all_)
    assert HEADER.search(heard.read_text()) is not None
    assert " UTC | user]" in heard.read_text()
    heard.unlink()
    lcm(*all_, "--tz", "Asia/Tokyo")
    assert " JST | user]" in heard.read_text()
    assert " UTC | " not in heard.read_text()
    heard.unlink()
    lcm(*all_, "--no-timestamps")
    told_ = heard.read_text()
    assert HEADER.search(told_) is None
    assert "\n[user]\n" in told_
    assert "\n[summary]\n" in told_
    assert sql(broken, "SELECT * FROM summaries") == before


def test_a_stopped_run_goes_on_only_as_it_was_begun(lcm: Lcm, broken: Path, tmp_path: Path) -> None:
    place, count = tmp_path / "dying", tmp_path / "count"
    place.write_text(
        f"#!/bin/sh\ncat > /dev/null\necho x >> {count}\n[ $(wc -l < {count}) -gt 2 ] && exit 1\n"
        "echo ferry crane berth pilot storm ledger $$\necho 'Expand for details about: all'\n"
    )
    place.chmod(0o755)
    begun = ("rewrite", *NAMED, "--all", "--model", f"command/{place}", "--tz", "Asia/Tokyo")
    stopped = lcm(*begun, "--apply")
    assert stopped.code == 1
    whole, left = len(stopped.envelope["data"]["items"][0]["plan"]["targets"]), lcm(*begun).data["targets"]
    assert 0 < left < whole
    for other in (("--tz", "UTC"), ("--no-timestamps",)):
        assert lcm(*begun[:-2], *other).data["targets"] == whole
    sound(lcm)


def test_repairing_all_conversations(lcm: Lcm, broken: Path, model: tuple[str, str]) -> None:
    planned = lcm("repair", "--all", *model).data
    assert [item["plan"]["conversationId"] for item in planned["items"]] == [1, 2]
    assert lcm("repair", "--all", "--dry-run", *model).data == planned
    done = lcm("repair", "--all", "--no-timestamps", "--apply", *model).data
    assert all(item["plan"]["targets"][0]["id"] in item["done"]["summaryIds"] for item in done["items"])
    assert lcm("repair", "--all").data["targets"] == 0
    assert "nothing to do" in lcm("repair", "--all", "--format", "table").out
    sound(lcm)


def test_a_repair_writes_the_one_that_is_named(lcm: Lcm, broken: Path, model: tuple[str, str]) -> None:
    left = "SELECT summary_id FROM summaries WHERE model = 'emergency-fallback' ORDER BY conversation_id"
    spoiled = sql(broken, left)
    first = str(spoiled[0][0])
    planned = lcm("repair", *NAMED, "--summary", first).data
    assert [target["id"] for target in planned["items"][0]["plan"]["targets"]] == [first]
    lcm("repair", *NAMED, "--summary", first, "--tz", "Europe/Berlin", "--apply", *model)
    assert sql(broken, left) == spoiled[1:]
    assert lcm("repair", "-s", 2, "--summary", first).code == 2
    sound(lcm)


WRONG = (
    (("rewrite", *NAMED, "--all", "--tz", "Mars/Crater"), "not a time zone"),
    (("rewrite", *NAMED, "--all", "--no-timestamps"), "name one with --model"),
    (("rewrite", *NAMED, "--all", "--no-timestamps", "--tz", "UTC"), "there are none"),
    (("repair",), "or say --all"),
    (("repair", *NAMED, "--all"), "or say --all"),
    (("repair", "--all", "--summary", "sum_x"), "of one conversation"),
)


@pytest.mark.parametrize(("command", "word"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_go_together_is_said(lcm: Lcm, broken: Path, command: tuple[str, ...], word: str) -> None:
    refused = lcm(*command)
    assert (refused.code, word in refused.error["message"]) == (2, True), refused.err

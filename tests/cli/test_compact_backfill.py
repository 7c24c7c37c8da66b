"""`lcm backfill`: older history folded, folded anew, to one root, and copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from tests.built import built
from tests.maintenance.surgery_kit import HERE, THERE, open_engine, talk, told

from .conftest import sound, sql
from .loop import bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

LONG = ("--conversation-id", "2")
SMALL = ("--leaf-chunk-tokens", "1500", "--leaf-target-tokens", "300", "--condensed-target-tokens", "300")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A model that writes short summaries."""
    path = tmp_path / "short"
    path.write_text("#!/bin/sh\ncat > /dev/null\necho 'Short words.'\necho 'Expand for details about: all'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folded conversation, a long one that is not, and a short one."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, _build_archive)


def _build_archive(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.append(THERE, talk(400, "long"))
        engine.append(lossless.Session(key="agent:main:short"), talk(4, "short"))


def roots(path: Path, conversation_id: int = 2) -> list[str]:
    """The summaries in a context, in order."""
    which = f"conversation_id = {conversation_id} AND summary_id IS NOT NULL"
    return [row[0] for row in sql(path, f"SELECT summary_id FROM context_items WHERE {which} ORDER BY ordinal")]


def covered(path: Path, conversation_id: int = 2) -> list[int]:
    """The messages in a context and below the summaries there, each as often as it is found."""
    items = f"FROM context_items WHERE conversation_id = {conversation_id}"
    found = sql(
        path,
        f"WITH RECURSIVE below (id) AS (SELECT summary_id {items}"
        " UNION ALL SELECT p.parent_summary_id FROM summary_parents p JOIN below ON p.summary_id = below.id)"
        " SELECT message_id FROM summary_messages JOIN below ON summary_id = id"
        f" UNION ALL SELECT message_id {items} AND message_id IS NOT NULL ORDER BY 1",
    )
    return [row[0] for row in found]


def test_a_backfill_is_shown_then_done_after_a_copy(lcm: Lcm, archive: Path, script: Path) -> None:
    before = bytes_of(archive)
    planned = lcm("backfill").data
    assert (planned["dryRun"], planned["backup"], planned["writer"]) == (True, None, "lossless-extractive")
    assert [item["conversationId"] for item in planned["items"]] == [2]
    assert lcm("backfill", "--dry-run").data == planned
    assert bytes_of(archive) == before
    done = lcm("backfill", "--model", f"command/{script}", "--max-summaries", 1, "--apply").data
    assert (done["summaries"], done["backup"].endswith(".bak")) == (1, True)
    assert sql(archive, "SELECT model FROM summaries WHERE conversation_id = 2") == [("command/short",)]
    sound(lcm)
    assert lcm("undo", *LONG, "--apply").data["plan"]["entry"]["action"] == "fold"
    for options in ((), ("--apply",)):
        assert "summar" in lcm("backfill", *options, "--format", "table").out
    assert lcm("backfill", "--apply").data["summaries"] == 0
    assert "nothing to fold" in lcm("backfill", "--format", "table").out
    sound(lcm)


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (None, ()),
        (4, ()),
        (9, ("--single-root",)),
        (None, ("--single-root",)),
        (1, ("--recompact", "--fresh-tail", "6")),
    ],
)
def test_a_dry_backfill_says_what_a_real_one_does(
    lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, more: tuple[str, ...]
) -> None:
    for name, value in (("BOOTSTRAP_MAX_TOKENS", 1000), ("LEAF_CHUNK_TOKENS", 1500), ("FRESH_TAIL_COUNT", 4)):
        monkeypatch.setenv(f"LCM_{name}", str(value))
    with lossless.open(archive, background=False) as engine:
        for number in range(3):
            engine.append(lossless.Session(key=f"agent:main:{number}"), talk(120, number))
    options = more if most is None else (*more, "--max-summaries", str(most))
    planned = lcm("backfill", *options).data
    done = lcm("backfill", *options, "--apply").data
    assert planned["summaries"] == done["summaries"] == (most or planned["summaries"]) > 0

    def counts(data: dict[str, Any]) -> list[tuple[int, int]]:
        return [(item["conversationId"], item["summaries"]) for item in data["items"] if item["summaries"]]

    assert counts(planned) == counts(done)
    sound(lcm)


def test_one_root_stands_for_everything_but_the_tail(lcm: Lcm, archive: Path) -> None:
    whole = covered(archive)
    lcm("backfill", *LONG, *SMALL, "--fresh-tail", 10, "--apply")
    assert len(roots(archive)) > 1
    done = lcm("backfill", *LONG, *SMALL, "--fresh-tail", 10, "--single-root", "--apply").data
    assert (done["items"][0]["roots"], len(roots(archive))) == (1, 1)
    assert sql(archive, "SELECT count(*) FROM context_items WHERE conversation_id = 2") == [(11,)]
    assert covered(archive) == whole
    again = lcm("backfill", *LONG, *SMALL, "--fresh-tail", 10, "--single-root", "--apply").data
    assert (again["summaries"], again["backup"]) == (0, None)
    sound(lcm)
    lcm("undo", *LONG, "--apply")
    assert len(roots(archive)) > 1
    sound(lcm)


def test_folding_anew_replaces_the_summaries_and_can_be_taken_back(lcm: Lcm, archive: Path) -> None:
    whole, before = covered(archive, 1), roots(archive, 1)
    planned = lcm("backfill", "--conversation-id", 1, "--recompact", "--fresh-tail", 8, *SMALL).data
    (item,) = planned["items"]
    old = sql(archive, "SELECT count(*) FROM summaries WHERE conversation_id = 1")
    assert [(item["unfolded"],)] == old
    table = lcm("backfill", "--conversation-id", 1, "--recompact", "--format", "table").out
    assert "unfolded" in table
    done = lcm("backfill", "--conversation-id", 1, "--recompact", "--fresh-tail", 8, *SMALL, "--apply").data
    assert done["summaries"] == planned["summaries"] > 0
    assert covered(archive, 1) == whole
    assert set(before).isdisjoint(row[0] for row in sql(archive, "SELECT summary_id FROM summaries"))
    sound(lcm)
    for _ in range(done["summaries"] + 1):
        lcm("undo", "--conversation-id", 1, "--apply")
        sound(lcm)
    assert roots(archive, 1) == before
    assert covered(archive, 1) == whole


def test_a_title_and_a_copy_follow(lcm: Lcm, archive: Path) -> None:
    options = (*LONG, *SMALL, "--single-root", "--transplant-to", "3", "--title", "The long one")
    planned = lcm("backfill", *options).data
    assert (planned["title"], planned["transplant"]["status"]) == ("given", "planned")
    assert "would be copied to conversation 3" in " ".join(lcm("backfill", *options, "--format", "table").out.split())
    done = lcm("backfill", *options, "--apply").data
    assert (done["title"], done["transplant"]["status"]) == ("given", "copied")
    assert sql(archive, "SELECT title FROM conversations WHERE conversation_id = 2") == [("The long one",)]
    assert len(roots(archive, 3)) == 1
    sound(lcm)
    before = bytes_of(archive)
    again = lcm("backfill", *options, "--apply").data
    assert (again["title"], again["transplant"]["status"], again["backup"]) == ("there", "there", None)
    assert "already" in lcm("backfill", *options, "--apply", "--format", "table").out
    assert bytes_of(archive) == before
    refused = lcm("backfill", *options, "--recompact", "--apply")
    assert (refused.code, "has summaries of conversation 2 already" in refused.error["message"]) == (2, True)
    other = lcm("backfill", *LONG, "--title", "Another", "--apply")
    assert (other.code, "is called 'The long one' already" in other.error["message"]) == (2, True)
    assert bytes_of(archive) == before


def test_what_is_folded_already_is_copied_after_a_backup(lcm: Lcm, archive: Path) -> None:
    planned = lcm("backfill", "--conversation-id", 1, "--transplant-to", 3).data
    assert (planned["summaries"], planned["transplant"]["text"] != "") == (0, True)
    done = lcm("backfill", "--conversation-id", 1, "--transplant-to", 3, "--apply").data
    assert (done["summaries"], done["transplant"]["applied"], done["backup"].endswith(".bak")) == (0, True, True)
    sound(lcm)


def test_numbers_win_over_the_settings(lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "9000")
    few = lcm("backfill", *LONG).data["summaries"]
    many = lcm("backfill", *LONG, *SMALL).data["summaries"]
    tail = lcm("backfill", *LONG, *SMALL, "--fresh-tail", 380).data["items"][0]["tokens"]
    assert few < many
    assert tail < lcm("backfill", *LONG, *SMALL, "--fresh-tail", 2).data["items"][0]["tokens"]


def test_a_model_writes_all_of_them_whatever_the_limit(
    lcm: Lcm, archive: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MAX_CALLS_PER_WINDOW", "1")
    monkeypatch.setenv("LCM_SUMMARY_MODEL", f"command/{script}")
    done = lcm("backfill", *LONG, *SMALL, "--single-root", "--model", "--apply").data
    assert done["summaries"] > 3
    models = sql(archive, "SELECT DISTINCT model FROM summaries WHERE conversation_id = 2")
    assert models == [("command/short",)]
    sound(lcm)


def test_a_model_that_fails_is_told(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    done = lcm("backfill", *LONG, *SMALL, "--model", f"command/{broken}", "--apply")
    assert done.code == 1
    assert done.envelope["data"]["items"][0]["failure"]
    assert done.envelope["data"]["summaries"] > 0
    anew = ("--conversation-id", 1, "--recompact", "--fresh-tail", 8, "--model", f"command/{broken}", "--apply")
    shown = lcm("backfill", *anew, "--format", "table")
    assert "lcm rewrite --extractive" in " ".join(shown.out.split())
    sound(lcm)


WRONG = (
    (("--title", "x"), 2, "for one conversation"),
    (("--transplant-to", "1"), 2, "for one conversation"),
    ((*LONG, "--transplant-to", "2"), 2, "into itself"),
    ((*LONG, "--transplant-to", "9"), 3, "conversation 9"),
    ((*LONG, "--transplant-to", "1", "--max-summaries", "1"), 2, "leave --max-summaries out"),
    ((*LONG, "--provider", "openai"), 2, "say --model, too"),
    ((*LONG, "--prompt-dir", "."), 2, "say --model, too"),
    ((*LONG, "--model"), 4, "no model"),
    ((*LONG, "--leaf-fanout", "1"), 2, "--leaf-fanout"),
    ((*LONG, "--fresh-tail", "0"), 2, "--fresh-tail"),
    ((*LONG, "--leaf-chunk-tokens", "500", "--leaf-target-tokens", "500"), 2, "would not be smaller"),
    ((*LONG, "--condensed-target-tokens", "20000"), 2, "--condensed-target-tokens"),
    (("--conversation-id", "3", "--transplant-to", "1"), 2, "no summaries in its context"),
    (("--conversation-id", "9"), 3, "number 9"),
    (("--session-id", "nobody"), 3, "'nobody'"),
)


@pytest.mark.parametrize(("options", "code", "word"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_done_is_refused_before_anything_is(
    lcm: Lcm, archive: Path, options: tuple[str, ...], code: int, word: str
) -> None:
    before = bytes_of(archive)
    refused = lcm("backfill", *options, "--apply")
    assert (refused.code, word in refused.error["message"]) == (code, True), refused.err
    assert bytes_of(archive) == before


def test_the_folded_one_is_told_apart_by_its_run(lcm: Lcm, archive: Path) -> None:
    assert lcm("backfill", "--session-id", HERE.id, "--recompact").data["items"][0]["conversationId"] == 1

"""`lcm dissolve`, `rewrite`, `repair`, `transplant`, `merge`, `undo`, `diff`, `focus` and `prompts`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from tests.maintenance.surgery_kit import HERE, THERE, talk

from .conftest import sound, sql
from .loop import bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", HERE.key)


def root(path: Path) -> str:
    return str(sql(path, "SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL")[0][0])


def test_dissolving_is_shown_before_it_is_done(lcm: Lcm, folded: Path) -> None:
    before, summary = bytes_of(folded), root(folded)
    planned = lcm("dissolve", summary).data
    assert bytes_of(folded) == before
    assert (planned["applied"], planned["done"]) == (False, None)
    assert planned["text"].startswith("- [0] ")
    done = lcm("dissolve", summary, "--apply").data
    assert done["plan"] == planned["plan"]
    assert done["done"]["backup"].endswith(".bak")
    sound(lcm)
    again = lcm("dissolve", summary, "--apply")
    assert (again.code, again.error["code"]) == (2, "bad_input")
    assert lcm("undo", *NAMED, "--apply").data["done"]["tokensAfter"] == planned["plan"]["tokensBefore"]
    assert root(folded) == summary
    sound(lcm)


def test_undo_shows_the_last_step_and_takes_it(lcm: Lcm, folded: Path) -> None:
    shown = lcm("undo", *NAMED).data
    assert shown["plan"]["entry"]["action"] == "fold"
    assert "detail" not in shown["plan"]["entry"]
    assert lcm("undo", *NAMED, "--apply").data["applied"] is True
    sound(lcm)
    missing = lcm("undo", "--session-key", THERE.key)
    assert (missing.code, "no fold" in missing.error["message"]) == (2, True)


def test_the_diff_between_two_points(lcm: Lcm, folded: Path) -> None:
    all_ = lcm("diff", *NAMED, "--since", "0").data
    assert [item["id"] for item in all_["entered"]] == [root(folded)]
    assert len(all_["left"]) == 56
    assert len(lcm("diff", *NAMED).data["entries"]) == 1
    assert lcm("diff", *NAMED, "--until", "2", "--since", "1").data["through"] == 2
    assert lcm("diff", *NAMED, "--since", "2020-01-01T00:00:00Z").data["entries"] == all_["entries"]
    assert lcm("diff", *NAMED, "--since", "yesterday").code == 2
    for point in ("--since", "--until"):
        refused = lcm("diff", *NAMED, point, "999999")
        assert refused.code == 2
        assert "has no change 999999; its last one is" in refused.error["message"]


def test_rewriting_asks_nobody_until_it_is_told_to(lcm: Lcm, folded: Path) -> None:
    before = bytes_of(folded)
    planned = lcm("rewrite", *NAMED, "--all").data
    assert bytes_of(folded) == before
    assert planned["targets"] > 5
    assert lcm("rewrite", "--all").code == 2
    assert lcm("rewrite", *NAMED).code == 2
    assert lcm("rewrite", "--extractive").data["targets"] == planned["targets"]
    refused = lcm("rewrite", "--extractive", "--apply")
    assert (refused.code, refused.error["code"]) == (4, "no_model")


def test_rewriting_with_a_model_and_templates_of_ones_own(
    lcm: Lcm, folded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "model"
    script.write_text("#!/bin/sh\ncat > /dev/null\necho 'Short words.'\necho 'Expand for details about: all'\n")
    script.chmod(0o755)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", f"command/{script}")
    folder = tmp_path / "own"
    assert len(lcm("prompts", "export", folder).data["written"]) == 6
    (folder / "leaf.md").write_text("Shorten this: {{source}}")
    changed = lcm("prompts", "diff", "--prompt-dir", folder).items
    assert [item["name"] for item in changed] == ["leaf"]
    before = bytes_of(folded)
    shown = lcm("rewrite", *NAMED, "--summary", root(folded), "--diff", "--prompt-dir", folder).data
    (draft,) = shown["items"][0]["drafts"]
    assert "+Short words." in draft["diff"]
    assert shown["items"][0]["applied"] is False
    assert root(folded)
    assert sql(folded, "SELECT count(*) FROM summaries WHERE content LIKE 'Short%'") == [(0,)]
    done = lcm("rewrite", "--summary", root(folded), "--apply").data
    assert done["items"][0]["applied"] is True
    assert bytes_of(folded) != before
    sound(lcm)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A model that is a program."""
    place = tmp_path / "short"
    place.write_text("#!/bin/sh\ncat > /dev/null\necho 'Short words.'\necho 'Expand for details about: all'\n")
    place.chmod(0o755)
    return place


def test_a_model_for_one_command_alone(lcm: Lcm, folded: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "command/false")
    named = ("--model", f"command/{script}")
    planned = lcm("rewrite", *NAMED, "--summary", root(folded), *named).data
    assert planned["writer"] == f"command/{script}"
    apart = ("--provider", "command", "--model", script)
    shown = lcm("rewrite", *NAMED, "--summary", root(folded), "--diff", *apart).data
    assert "+Short words." in shown["items"][0]["drafts"][0]["diff"]
    done = lcm("rewrite", *NAMED, "--summary", root(folded), "--apply", *named).data
    assert done["items"][0]["drafts"][0]["model"] == "command/short"
    assert sql(folded, "SELECT count(*) FROM summaries WHERE model = 'command/short'") == [(1,)]
    sound(lcm)
    spoiled = sql(folded, "SELECT summary_id FROM summaries WHERE depth = 0")[0][0]
    sql(folded, f"UPDATE summaries SET content = '' WHERE summary_id = '{spoiled}'")
    assert lcm("repair", *NAMED, "--diff", *named).data["writer"] == f"command/{script}"
    assert lcm("repair", "--all", "--diff", *named).data["items"][0]["applied"] is False
    brief = lcm("focus", "ferry?", *NAMED, "--no-compact", *named).data["focus"]["brief"]
    assert (brief["status"], brief["content"].startswith("Short words.")) == ("active", True)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--provider", "openai"), 2, "name the model with --model"),
        (("--model", "gpt"), 2, "PROVIDER/MODEL"),
        (("--model", "nobody/gpt"), 4, "'nobody' is not known"),
        (("--model", "openai/gpt"), 4, "no credential for provider 'openai'"),
        (("--base-url", "http://127.0.0.1:9/v1"), 2, "name the model with --model"),
        (("--model", "openai/gpt", "--base-url", "somewhere"), 2, "not an address"),
        (("--model", "command/cat", "--base-url", "http://127.0.0.1:9"), 2, "a command has no address"),
    ],
)
@pytest.mark.parametrize("command", ["rewrite", "repair", "focus"])
def test_a_model_that_cannot_be_meant_is_told_at_once(
    lcm: Lcm, folded: Path, command: str, options: tuple[str, ...], code: int, words: str
) -> None:
    before = bytes_of(folded)
    more: dict[str, tuple[object, ...]] = {
        "rewrite": (*NAMED, "--all", "--apply"), "repair": (*NAMED, "--apply"), "focus": ("ferry?", *NAMED),
    }  # fmt: skip
    refused = lcm(*command.split(), *more[command], *options)
    assert (refused.code, words in refused.error["message"]) == (code, True), refused.err
    assert refused.error["details"]["hint"]
    assert bytes_of(folded) == before


def test_an_address_of_the_settings_is_not_given_to_another_provider(
    lcm: Lcm, folded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "openai/gpt")
    monkeypatch.setenv("LCM_SUMMARY_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    one = ("rewrite", *NAMED, "--summary", root(folded))
    kept = lcm(*one, "--diff", "--model", "openai/other")
    assert "127.0.0.1:9" in kept.envelope["data"]["items"][0]["drafts"][0]["refusal"]
    assert lcm(*one, "--model", "nobody/other").error["details"]["model"] == "nobody/other"
    moved = lcm(*one, "--diff", "--base-url", "http://127.0.0.1:7/v1")
    assert "127.0.0.1:7" in moved.envelope["data"]["items"][0]["drafts"][0]["refusal"]


def test_a_model_that_fails_is_told(lcm: Lcm, folded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "model"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", f"command/{script}")
    failed = lcm("rewrite", *NAMED, "--summary", root(folded), "--apply")
    assert failed.code == 1
    assert failed.envelope["data"]["items"][0]["drafts"][0]["refusal"]
    sound(lcm)


def test_repairing_what_a_fallback_left(lcm: Lcm, folded: Path) -> None:
    assert lcm("repair", *NAMED).data["targets"] == 0
    spoiled = sql(folded, "SELECT summary_id FROM summaries WHERE depth = 0")[0][0]
    sql(folded, f"UPDATE summaries SET content = '' WHERE summary_id = '{spoiled}'")
    planned = lcm("repair", *NAMED).data
    assert (planned["targets"], planned["kinds"]) == (1, {"empty": 1})
    assert lcm("repair", *NAMED, "--apply", "--budget", "1").error["code"] == "blocked"
    done = lcm("repair", *NAMED, "--apply", "--budget", "1", "--confirm").data
    assert done["items"][0]["done"]["summaryIds"] == [spoiled]
    sound(lcm)


def test_transplanting(lcm: Lcm, folded: Path) -> None:
    planned = lcm("transplant", "--from", 1, "--to", 2).data
    assert planned["plan"]["messages"] == 56
    assert lcm("transplant", "--from", 1, "--to", 2, "--apply").data["applied"] is True
    sound(lcm)
    again = lcm("transplant", "--from", 1, "--to", 2)
    assert (again.code, "already" in again.error["message"]) == (2, True)
    assert lcm("transplant", "--from", 1, "--to", 99).code == 3
    assert lcm("undo", "--session-key", THERE.key, "--apply").code == 0
    sound(lcm)


WRONG: tuple[tuple[tuple[object, ...], int, str], ...] = (
    (("dissolve", "sum_nobody"), 3, "no summary 'sum_nobody'"),
    (("rewrite", "--summary", "sum_nobody"), 3, "no summary 'sum_nobody'"),
    (("rewrite", "--conversation-id", 2, "--summary", "ROOT"), 2, "it belongs to conversation 1"),
    (("repair", "--conversation-id", 2, "--summary", "ROOT"), 2, "it belongs to conversation 1"),
    (("repair", "--conversation-id", 1, "--summary", "ROOT"), 2, "is not broken"),
    (("repair", "--conversation-id", 1, "--summary", "sum_nobody"), 3, "no summary 'sum_nobody'"),
    (("dissolve", "LEAF"), 2, "it is below 'ROOT': dissolve that one first"),
    (("transplant", "--from", 1, "--to", 2, "--summary", "LEAF"), 2, "only summaries in the context"),
    (("transplant", "--from", 1, "--to", 9), 3, "no conversation 9"),
    (("transplant", "--from", 1, "--to", 1), 2, "into itself"),
    (("merge", "--session-key", "nobody"), 3, "session key 'nobody'"),
    (("undo", "--conversation-id", 9), 3, "number 9"),
    (("undo", "--conversation-id", 2), 2, "no fold and no surgery"),
    (("focus", "why?", "--conversation-id", 2), 2, "no summaries in its context"),
    (("refocus", "--conversation-id", 1), 2, "no active focus"),
    (("prompts", "list", "--prompt-dir", "nowhere"), 2, "does not exist"),
    (("prompts", "render", "--summary", "sum_nobody"), 3, "no summary 'sum_nobody'"),
    (("backfill", "--conversation-id", 9), 3, "number 9"),
)


@pytest.mark.parametrize(("command", "code", "words"), WRONG, ids=[" ".join(map(str, row[0])) for row in WRONG])
def test_what_was_wrong_is_said(lcm: Lcm, folded: Path, command: tuple[object, ...], code: int, words: str) -> None:
    names = {"ROOT": root(folded), "LEAF": sql(folded, "SELECT summary_id FROM summaries WHERE depth = 0")[0][0]}
    before = bytes_of(folded)
    refused = lcm(*(names.get(str(word), word) for word in command))
    assert refused.code == code
    assert words.replace("ROOT", names["ROOT"]) in refused.error["message"]
    assert code != 3 or "list` shows what is there" in refused.error["details"]["hint"]
    assert bytes_of(folded) == before


def test_nobody_is_asked_where_there_is_no_input_at_all(lcm: Lcm, folded: Path) -> None:
    command = [sys.executable, "-m", "lossless.cli.main", "dissolve", root(folded), "--apply"]
    closed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, preexec_fn=_close_input)
    assert (closed.returncode, closed.stderr) == (0, "")
    sound(lcm)


def _close_input() -> None:
    os.close(0)


def test_what_an_undo_brings_back_is_shown(lcm: Lcm, folded: Path) -> None:
    summary = root(folded)
    lcm("dissolve", summary, "--purge", "--apply")
    (back,) = lcm("undo", *NAMED).data["plan"]["returns"]
    assert (back["id"], back["what"]) == (summary, "depth 2")
    shown = lcm("undo", *NAMED, "--apply", "--format", "table").out
    assert "lcm restore" in " ".join(shown.split())
    sound(lcm)


def test_merging(lcm: Lcm, folded: Path) -> None:
    assert lcm("merge", *NAMED).code == 2
    sql(folded, "UPDATE conversations SET active = 0, archive_cause = 'rollover-fallback' WHERE conversation_id = 1")
    with lossless.open(folded, background=False) as engine:
        engine.append(HERE, talk(2, "later"))
    assert lcm("merge", *NAMED).data["plan"]["split"]["sourceIds"] == [1]
    assert lcm("merge", *NAMED, "--apply").data["applied"] is True
    sound(lcm)


def test_focusing(lcm: Lcm, folded: Path) -> None:
    assert lcm("focus", *NAMED).data["focus"] is None
    before = bytes_of(folded)
    assert lcm("focus", "ferry?", *NAMED, "--dry-run").data["plan"]["prompt"] == "ferry?"
    assert bytes_of(folded) == before
    written = lcm("focus", "ferry?", *NAMED).data["focus"]
    assert written["brief"]["status"] == "active"
    assert lcm("refocus", *NAMED, "--no-compact").data["focus"]["brief"]["prompt"] == "ferry?"
    assert lcm("unfocus", *NAMED).data["focus"]["brief"]["status"] == "inactive"
    assert lcm("unfocus", *NAMED).code == 2
    sound(lcm)


def test_prompts(lcm: Lcm, folded: Path, tmp_path: Path) -> None:
    assert [item["isOwn"] for item in lcm("prompts", "list").items] == [False] * 6
    assert "{{source}}" in lcm("prompts", "show", "leaf").data["text"]
    marked = lcm("prompts", "render", "leaf-aggressive").data
    assert "(the source)" in marked["user"]
    real = lcm("prompts", "render", "--summary", root(folded)).data
    assert (real["name"], "conversation_to_condense" in real["user"]) == ("condensed-d2", True)
    assert lcm("prompts", "render").code == 2
    assert lcm("prompts", "diff").code == 2
    assert lcm("prompts", "show", "nothing").code == 2
    again = lcm("prompts", "export", tmp_path / "a")
    assert again.data["all"] == len(again.data["written"]) == 6
    assert lcm("prompts", "export", tmp_path / "a").data["written"] == []
    assert "6 files stayed" in lcm("summary", "prompts", "export", tmp_path / "a").out


VIEWS: tuple[tuple[Any, ...], ...] = (
    ("diff", *NAMED, "--since", "0"),
    ("diff", *NAMED, "--since", "2100-01-01T00:00:00Z"),
    ("undo", *NAMED),
    ("rewrite", *NAMED, "--depth", "0", "--diff"),
    ("repair", *NAMED),
    ("transplant", "--from", 1, "--to", 2, "--apply"),
    ("focus", *NAMED),
    ("focus", "ferry?", *NAMED, "--dry-run"),
    ("focus", "ferry?", *NAMED),
    ("unfocus", *NAMED),
    ("prompts", "list"),
    ("prompts", "show", "system"),
    ("prompts", "render", "leaf"),
    ("prompts", "export", "own"),
    ("prompts", "diff", "--prompt-dir", "own"),
)


def test_a_person_sees_tables(lcm: Lcm, folded: Path) -> None:
    for command in VIEWS:
        answer = lcm(*command, "--format", "table")
        assert (answer.code, answer.err) == (0, ""), command
        assert answer.out.strip()
        assert not answer.out.startswith("{")
    dissolved = lcm("dissolve", root(folded), "--apply", "--format", "table")
    assert "lcm summary undo" in dissolved.out

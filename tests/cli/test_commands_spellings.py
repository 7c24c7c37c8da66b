"""Old and new spellings: the old ones keep their habits, the new ones follow one rule for changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.shell_completion import ShellComplete

import lossless
from lossless.cli.commands import LazyGroup
from lossless.cli.main import OLD_SPELLINGS, cli, tui_commands
from lossless.cli.reference import aliases_page

from .conftest import FERRY, said

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


def names_of(command: click.Command, *path: str) -> set[str]:
    """The full names of a command and of all that are below it."""
    context = click.Context(command)
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    inner = {name: command.get_command(context, name) for name in below} if isinstance(command, click.Group) else {}
    return {" ".join(path)}.union(*(names_of(one, *path, name) for name, one in inner.items() if one))


def test_every_old_spelling_works_and_stands_on_the_page(lcm: Lcm) -> None:
    page, known = aliases_page(), names_of(cli)
    for name, entry in OLD_SPELLINGS.items():
        assert lcm(name, "--help").code == 0
        assert f"`lcm {name}" in page
        assert name not in cli.list_commands(click.Context(cli))
        command = entry.help.partition(" --")[0]
        assert not command or command in known, f"{name} → {entry.help}"


def test_synonyms_lead_to_commands() -> None:
    known = names_of(cli) | {"--help", "--version"}
    assert [
        word for word, meant in cli.synonyms.items() for one in meant.split("|") if one.partition(" --")[0] not in known
    ] == []
    assert set(cli.synonyms).isdisjoint({*cli.entries, *OLD_SPELLINGS})


def test_there_are_about_thirty_commands_in_five_groups() -> None:
    assert len(cli.sections) == 5
    assert len(cli.entries) <= 36
    assert {"serve", "copy"}.isdisjoint(cli.entries)


PAIRS = [
    (("conversations", "list"), ("list",)),
    (("grep", "ferries"), ("search", "ferries")),
    (("summaries", "list"), ("summary", "list")),
]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda words: " ".join(words))
def test_new_spellings_print_text_into_a_pipe_and_old_ones_json(
    lcm: Lcm, archive: Path, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    before, now = lcm(*old), lcm(*new)
    assert json.loads(before.out)["ok"] is True
    assert not now.out.startswith("{")
    assert len(now.out.splitlines()) >= len(before.items)
    same = lcm(*new, "--json").items
    assert [{**row, **old_row} for row, old_row in zip(same, before.items, strict=True)] == [
        {**old_row, **row} for row, old_row in zip(same, before.items, strict=True)
    ]


def test_an_error_of_a_new_spelling_is_a_sentence_in_a_pipe(lcm: Lcm, archive: Path) -> None:
    assert lcm("show", "nobody").err.startswith("Error: No conversation is called 'nobody'.")
    assert lcm("search").err.startswith("Error: Missing argument")
    assert lcm("show", "nobody", "--json").error["code"] == "not_found"


def test_what_can_be_undone_happens_at_once_and_names_its_undo(lcm: Lcm, folded: Path) -> None:
    root = max(lcm("summaries", "list").items, key=lambda item: int(item["depth"]))["summaryId"]
    before = lcm("context", "-s", 1).data["stored"]
    planned = lcm("summary", "dissolve", root, "--dry-run")
    assert "Nothing was changed. Leave --dry-run out to do it." in planned.out
    assert lcm("context", "-s", 1).data["stored"] == before
    done = lcm("summary", "dissolve", root)
    assert (done.code, "Done." in done.out) == (0, True)
    assert "`lcm summary undo -s 1` takes this back" in " ".join(done.out.split())
    assert lcm("context", "-s", 1).data["stored"] != before
    assert lcm("summary", "undo", "-s", 1).code == 0
    assert lcm("context", "-s", 1).data["stored"] == before


@pytest.mark.parametrize(
    "words", [("summary", "rewrite", "-s", 1, "--all"), ("session", "new", "-s", 1), ("forget", "ferry")]
)
def test_what_is_for_good_or_costs_money_needs_a_word(lcm: Lcm, folded: Path, words: tuple[Any, ...]) -> None:
    bytes_before = folded.read_bytes()
    for more in ((), ("--dry-run",)):
        shown = lcm(*words, *more, "--format", "table")
        assert shown.code == 0, shown.err
        assert "Nothing was changed. --yes does it" in shown.out
        assert folded.read_bytes() == bytes_before
    assert lcm(*words, "--yes").code == 0
    assert folded.read_bytes() != bytes_before or (folded.parent / "lcm.db-wal").stat().st_size > 0


DRY_RUNS: tuple[tuple[tuple[object, ...], str], ...] = (
    (("pin", "-s", 1, "Never first"), "Pin 2 is in every prompt"),
    (("unpin", "-s", 1, 1), "Pin 1 was removed"),
    (("append", "-s", "k", "lines.jsonl"), "1 message stored"),
    (("sync", "-s", "k", "lines.jsonl"), "1 message stored"),
    (("session", "new", "-s", 1), "779 → 482 tokens"),
    (("session", "reset", "-s", 1), "agent:main:here goes on in conversation 3"),
    (("session", "bootstrap", "lines.jsonl", "-s", "k"), "1 message stored"),
    (("config", "set", "freshTailCount", 9), "freshTailCount default → 9"),
)


def test_a_dry_run_shows_what_would_happen(lcm: Lcm, folded: Path, home: Path) -> None:
    def files() -> dict[Path, bytes]:
        wal = folded.with_name("lcm.db-wal")
        kept = [folded, *home.rglob("*"), *([wal] if wal.exists() and wal.stat().st_size else [])]
        return {path: path.read_bytes() for path in kept if path.is_file()}

    (home / "lines.jsonl").write_text(json.dumps(said(1)) + "\n")
    lcm("pin", "-s", 1, "Ferries first")
    before = files()
    for words, outcome in DRY_RUNS:
        shown = lcm(*words, "--dry-run", "--format", "table")
        assert (shown.code, shown.err) == (0, ""), words
        assert outcome in " ".join(shown.out.split())
        assert "Nothing was changed." in shown.out
        assert "takes this back" not in shown.out
        assert lcm(*words, "--dry-run", "--json").data["dryRun"] is True
        assert files() == before, words


def test_a_conversation_is_named_the_same_way_everywhere(lcm: Lcm, archive: Path) -> None:
    for name in (1, "agent:main:ferry", "run-1"):
        assert lcm("context", "-s", name).data["conversationId"] == 1
        assert lcm("show", name, "--json").data["conversation"]["conversationId"] == 1
    assert lcm("context", "-s", "@last").data["conversationId"] == 2
    assert lcm("reset", "-s", "@live", "--yes").data["closedConversationId"] == 2
    with lossless.open(archive, background=False) as engine:
        engine.append(FERRY, [lossless.Incoming(said(99), "e99", datetime.now(UTC) + timedelta(minutes=1))])
    assert lcm("context", "-s", "@last").data["conversationId"] == 1
    wrong = lcm("context", "-s", "ferry")
    assert (wrong.code, wrong.error["details"]["hint"][:30]) == (3, "Did you mean 'agent:main:ferry")
    both = lcm("context", "-s", 1, "--session-key", "agent:main:ferry")
    assert (both.code, both.error["code"]) == (2, "bad_arguments")


def test_a_number_is_a_conversation_and_else_a_message(lcm: Lcm, archive: Path) -> None:
    kinds = {name: lcm("show", name, "--json").data["type"] for name in ("2", "#2", "3", "msg#2", "sum_root", "@live")}
    assert kinds == {
        "2": "conversation", "#2": "conversation", "3": "message", "msg#2": "message", "sum_root": "summary",
        "@live": "conversation",
    }  # fmt: skip
    shown = lcm("show", "1", "--limit", 3).out
    assert [line for line in shown.splitlines() if line.startswith("#")] == [
        "#10 assistant  2026-07-01 09:00", "#11 user  2026-07-01 10:00", "#12 assistant  2026-07-01 11:00",
    ]  # fmt: skip
    assert "Fresh tail messages" in lcm("show", "1", "--details").out


def test_dates_as_people_write_them(lcm: Lcm, archive: Path) -> None:
    def ids(*words: str) -> list[int]:
        return [item["id"] for item in lcm("search", "ferries", "--in", "messages", "--json", *words).items]

    assert ids("--since", "2026-07-01T10:00:00Z") == [12, 11]
    assert ids("--since", "1 July 2026", "--before", "2026-07-01T01:00:00Z") == [1]
    assert ids("--since", "July 2, 2026") == []
    assert ids("--before", "2023-01-01") == []
    for wrong in (("--since", "soon"), ("--since", "2 July 2026", "--before", "1 July 2026")):
        answer = lcm("search", "ferries", *wrong, "--json")
        assert (answer.code, answer.error["code"]) == (2, "bad_arguments")


def test_a_shell_completes_commands_and_conversations(lcm: Lcm, archive: Path) -> None:
    shell = ShellComplete(cli, {}, "lcm", "_LCM_COMPLETE")
    offered = {item.value for item in shell.get_completions([], "s")}
    assert {"status", "show", "search", "summary"} <= offered
    assert {item.value for item in shell.get_completions(["show"], "agent:")} == {
        "agent:main:ferry",
        "agent:main:crane",
    }
    assert [item.value for item in shell.get_completions(["context", "-s"], "@")] == ["@last", "@live"]
    for name in ("bash", "zsh", "fish"):
        assert "_LCM_COMPLETE" in lcm("completion", name).out


def test_an_import_finds_the_kinds(lcm: Lcm, archive: Path, home: Path, tmp_path: Path) -> None:
    folder = home / "mixed" / "projects" / "-home-u-ferry"
    folder.mkdir(parents=True)
    record = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": "by Claude"}}
    (folder / "s1.jsonl").write_text(json.dumps(record) + "\n")
    (home / "mixed" / "plain.jsonl").write_text(json.dumps(said(77)) + "\n")
    (home / "mixed" / "notes.json").write_text("no transcript")
    planned = lcm("import", "mixed", "--dry-run", "--json").data
    assert (planned["applied"], planned["messages"], planned["kind"]) == (False, 2, "claude-code, jsonl")
    done = lcm("import", home / "mixed", "--json").data
    assert (done["messages"], done["otherKinds"]) == (2, {"unknown": 1})
    again = lcm("import", "mixed")
    assert "Nothing new was stored: the archive has all of it already" in again.out
    assert lcm("--db", tmp_path / "other.db", "--create", "import", archive, "--json").data["messagesInserted"] == 16
    assert lcm("import", "mixed/notes.json").code == 2
    assert lcm("import", "claude-code", "mixed").data["applied"] is False, "an explicit kind keeps its habits"
    nothing = lcm("import")
    assert (nothing.code, "lcm import PATH" in nothing.err) == (3, True)


def test_what_stored_nothing_says_why(lcm: Lcm, archive: Path) -> None:
    assert "the input held no message" in lcm("append", "-s", "k", "--format", "table", input="").out
    shown = lcm("compact", "-s", 1, "--until", 1, "--format", "table").out
    assert "Next: " in shown
    assert "freshTailCount" in shown


def test_the_prompt_cache_stands_in_the_status(lcm: Lcm, archive: Path) -> None:
    assert lcm("status").data["promptCaches"] == []
    with lossless.open(archive, background=False) as engine:
        usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}
        engine.after_turn(FERRY, new_messages=[said(99)], usage=usage)
    (seen,) = lcm("status").data["promptCaches"]
    assert (seen["conversationId"], seen["cacheState"], seen["lastObservedCacheRead"]) == (1, "hot", 900)
    assert "hot" in lcm("status", "--format", "table").out


def test_the_words_of_lcm_tui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, meant in {
        "": ["tui"],
        "--read-only": ["tui", "--read-only"],
        "prompts --list": ["prompts", "list"],
        "prompts --diff leaf --prompt-dir d": ["prompts", "diff", "leaf", "--prompt-dir", "d"],
        "prompts --export d": ["prompts", "export", "d"],
        "repair 44 --summary-id sum_1 --apply": ["repair", "-s", "44", "--summary", "sum_1", "--apply"],
        "repair --all --verbose": ["repair", "--all"],
        "rewrite 44 --all --show-diff": ["rewrite", "-s", "44", "--all", "--diff"],
        "doctor 44 --apply": ["repair", "-s", "44", "--apply", "--confirm"],
        "dissolve 44 --summary-id sum_1 --purge=false": ["dissolve", "sum_1"],
        "--db x.db dissolve 44 -summary-id sum_1 -apply": ["--db", "x.db", "dissolve", "sum_1", "--apply", "--purge"],
        "transplant 1 2 --apply": ["transplant", "--from", "1", "--to", "2", "--apply"],
        "status": ["status"],
    }.items():
        assert tui_commands(words.split()) == [meant]
    assert tui_commands(["--help"]) == tui_commands(["rewrite", "-h"]) == []
    for wrong in (
        ["rewrite"],
        ["transplant", "1"],
        ["dissolve", "44"],
        ["backfill", "main"],
        ["backfill", "main", "s"],
    ):
        with pytest.raises(ValueError, match=r"lcm-tui|transcript"):
            tui_commands(wrong)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    file = tmp_path / "agents" / "main" / "sessions" / "run-7.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    assert tui_commands(["backfill", "main", "run-7", "--apply"]) == [
        ["import", "openclaw", str(file), "--no-summaries", "--apply"],
        ["backfill", "-s", "run-7", "--apply"],
    ]


def test_every_group_that_is_lazy_has_commands_that_load() -> None:
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if isinstance(command, LazyGroup):
            assert all(command.get_command(click.Context(command), inner) for inner in command.entries)

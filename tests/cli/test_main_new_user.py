"""What somebody types who has read nothing: each first guess works, or its error names the right command."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


class Task(NamedTuple):
    """What is to be done, the commands that do it, and what people type."""

    what: str
    right: tuple[str, ...]
    guesses: tuple[str, ...]


TASKS = (
    Task("see what there is", ("--help", "status"), ("", "help", "--help", "status", "stats", "info", "version")),
    Task("list my conversations", ("list",), ("list", "ls", "sessions", "history", "conversations list", "chats")),
    Task(
        "read one", ("show", "agent:main:ferry"),
        ("show 1", "show agent:main:ferry", "show @last", "open 1", "cat 1", "view 2", "show ferry", "read 1"),
    ),
    Task("find words", ("search",), ("search thing about ferries", "find ferries", "grep ferries", "serach ferries")),
    Task(
        "find words in one conversation", ("search", "list"),
        ("search -s 1 ferries", "search ferries --session agent:main:ferry", "search -s @live thing", "search -s x y"),
    ),
    Task(
        "find words from last month", ("search", "list"),
        ("search ferries --since yesterday", "list --since '3 March'", "search ferries --since 2023-01-01",
         "search ferries --before 'last week'", "list --since 30d", "list --since noonish"),
    ),
    Task("ask a question", ("ask", "recall"), ("ask 'Which thing?' --no-model", "recall 'Which thing?'", "question x")),
    Task("open what a search found", ("show",), ("show msg#3", "show '#3'", "open msg#3", "show sum_leaf1", "get 3")),
    Task("list summaries", ("list", "summary"), ("summary list", "summaries list", "summary ls", "sumary list")),
    Task("see what the model sees", ("context",), ("context -s @last", "context -s 1", "prompt", "context", "window")),
    Task(
        "bring in a folder", ("import", "import claude-code"),
        ("import chats", "import chats/a.jsonl", "import chats --dry-run", "load chats", "import claude", "ingest x"),
    ),
    Task("write it as text", ("export", "markdown"), ("export markdown out", "dump", "export md out2", "save")),
    Task("make a long conversation shorter", ("compact",), ("compact -s 1", "compress", "summarize -s 1", "compact")),
    Task("take that back", ("summary undo",), ("summary undo -s 1 --dry-run", "undo -s 1", "revert", "rollback")),
    Task(
        "remove a secret", ("forget",),
        ("forget ferries --dry-run", "delete ferries", "rm msg#3", "forget msg#3 --yes", "redact ferries"),
    ),
    Task("delete what is old", ("prune",), ("prune --older-than 90d", "clean", "prune", "cleanup", "gc")),
    Task("make a copy", ("backup",), ("backup", "backups", "backup --list", "snapshot", "bakcup")),
    Task("look whether all is well", ("doctor", "doctor --fix"), ("doctor", "verify", "check", "doctor --fix", "fix")),
    Task("connect my agent", ("connect", "codex"), ("connect codex --dry-run", "install codex --dry-run", "setup")),
    Task("change a setting", ("config", "set"), ("config show", "settings", "config get freshTailCount", "set x 1")),
)  # fmt: skip


def split(guess: str) -> list[str]:
    import shlex

    return shlex.split(guess)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.what)
def test_a_guess_works_or_its_error_names_the_command(
    lcm: Lcm, request: pytest.FixtureRequest, home: Path, task: Task
) -> None:
    request.getfixturevalue("folded" if task.right == ("summary undo",) else "archive")
    (home / "chats").mkdir()
    (home / "chats" / "a.jsonl").write_text('{"role": "user", "content": "good morning"}\n')
    works = 0
    for guess in task.guesses:
        answer = lcm(*split(guess), "--format", "table")
        if answer.code == 0:
            works += 1
            assert answer.out, guess
            continue
        assert answer.code in (2, 3), f"{guess}: {answer.code} {answer.err}"
        named = any(f"{mark}{name}" in answer.err for name in task.right for mark in ("'", "lcm "))
        assert named, f"{guess}: {answer.err}"
    assert works, task.what


def test_there_are_twenty_tasks() -> None:
    assert len(TASKS) == 20

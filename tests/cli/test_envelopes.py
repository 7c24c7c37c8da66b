"""What programs read stays as it is: the JSON of every command, the schemas of the tools, the fields of public types.

All of it is compared with `tests/golden/interfaces.json`. After a change that is meant, run
`LOSSLESS_UPDATE_GOLDEN=1 pytest tests/cli/test_envelopes.py` and look at the difference. Values that differ from run
to run (times, sizes, ids, paths) are stored by their kind alone.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import random
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import lossless
from lossless.cli.main import OLD_SPELLINGS, cli
from lossless.recall.tools import ALL_TOOLS, openai_tools
from tests.maintenance.surgery_kit import roots

from .conftest import build_folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lcm

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "interfaces.json"

#: Commands that answer with no envelope: they serve, draw or print for people or for another program.
WITHOUT_ENVELOPE = {"tui", "demo", "mcp", "proxy", "completion", "bridge", "hook", "init"}

#: Old spellings of groups whose commands are tried under their new ones.
OLD_GROUPS = {"transcripts", "quarantine", "prompts", "install", "uninstall"}
#: Run in this order, each on what the ones before it have left; a line may end in `< FILE` of standard input.
COMMANDS = """
status
status --size --cost
size
cost
cost -s 1
debt
debt -s 1
list
conversations list --limit 1
conversations show -s 1
show 1 --limit 2
show 1 --details
show msg#2
show {root}
messages list -s 1 --limit 2 --include-content
messages list -s 1 --role assistant --limit 1
messages show 2
messages tail -s 1 --count 2
summaries list -s 1 --limit 2
summaries show {root}
summary list -s 1 --depth 0 --limit 1
search ferry --limit 2
grep ferry --limit 2 --in summaries
grep nowhere
recall 'Which ferry?' --max-tokens 300
recent 2026-01 --max-tokens 200
ask 'Which ferry?' --no-model --all
describe {root} --all
expand {root} --all --token-cap 200
summary expand {root} -s 1 --messages --token-cap 200
context -s 1 --budget 4000
context -s 1 --items
context -s 1 --prompt 'Which ferry?'
context -s 1 --history
summary diff -s 1
diff -s 1 --since 2026-01-05T08:00:00Z
graph -s 1 {tmp}/graph.svg
summary graph -s 1 {tmp}/graph.dot --as dot
summary prompts list
summary prompts show leaf
summary prompts export {tmp}/prompts
summary prompts diff leaf --prompt-dir {tmp}/prompts
summary prompts render --summary {leaf}
config show
config get freshTailCount
config set freshTailCount 6
model
model test --no-call
model use anthropic/claude-haiku-4-5 --no-call --dry-run
append -s agent:main:new {tmp}/plain.jsonl
append -s agent:main:new --key k1 < plain
append -s agent:main:new --skip-bad < bad
append -s agent:main:new < bad
sync -s agent:main:new {tmp}/window.json
import jsonl {tmp}/plain.jsonl
import jsonl {tmp}/plain.jsonl --apply
import auto {tmp}/chats --dry-run
import {tmp}/chats
import claude-code {tmp}/chats
import codex {tmp}/chats
import pi {tmp}/chats
import opencode {tmp}/chats
import gemini {tmp}/chats
import openclaw {tmp}/chats
import chatgpt {tmp}/chats
export archive {tmp}/out.jsonl
export lossless-claw {tmp}/out.db
export remnic {tmp}/remnic
export jsonl {tmp}/lines
export markdown {tmp}/pages
export html {tmp}/html -s agent:main:new
import archive {tmp}/out.jsonl --dry-run
import lossless-claw {tmp}/out.db --verify
import remnic {tmp}/remnic --dry-run
import-lossless-claw --src {tmp}/out.db --memory-dir {tmp}/memory
session bootstrap {tmp}/plain.jsonl -s agent:main:boot
bootstrap {tmp}/plain.jsonl -s agent:main:boot
session transcripts list --all
session transcripts
session transcripts accept 1
session transcripts refuse 1
session quarantine list
session quarantine accept 1
session quarantine refuse 1
session quarantine
pin -s 1 'Ferries first'
pin -s 1 --message 3
unpin -s 1 1
compact -s 1 --dry-run
compact -s 1 --budget 4000
compact -s 2
worker --dry-run
worker --no-model
forget ferry --dry-run
dissolve {root}
dissolve {root} --apply
undo -s 1
summary undo -s 1
summary dissolve {root} --dry-run
rewrite -s 1 --summary {leaf} --diff
summary rewrite -s 1 --summary {leaf} --yes
repair -s 1
summary repair --all --yes
backfill -s 2
summary backfill -s 2 --yes
transplant --from 1 --to 2
summary transplant --from 1 --to 2 --dry-run
merge -s agent:main:here
session merge -s agent:main:here --dry-run
focus -s 1 'Which ferry?' --dry-run
summary focus -s 1 'Which ferry?' --yes
refocus -s 1 --dry-run
summary refocus -s 1 --yes
summary unfocus -s 1
unfocus -s 1
session rotate -s 2
rotate -s 2
new -s 2 --yes
session new -s 3 --yes
session reset -s agent:main:new --yes
reset -s agent:main:new --yes
verify
verify --absent-from {tmp}/phrases.txt
doctor --offline
doctor examine --offline
doctor --fix --dry-run --offline
doctor adopt --dry-run
adopt
doctor clean
doctor clean --apply cron_sessions --yes
doctor maintenance
doctor maintenance --apply 1 --yes
doctor rebuild
doctor rebuild --apply
doctor reindex
doctor reindex --apply
doctor rollover-splits
files list
files show {file}
files explore
files gc
stub
files stub --dry-run
show {file}
backup
backup {tmp}/copy.db
backup --list
backups
restore {tmp}/copy.db --dry-run
restore {tmp}/copy.db --yes
forget 'a secret of mine' --yes
prune --older-than 90d
prune --older-than 1d --include-active --yes
connect claude-code --user
connect claude-code --doctor
connect codex --user
connect openclaw --state-dir {tmp}/openclaw --dry-run
disconnect claude-code --user
disconnect codex --user
disconnect codex --dry-run
disconnect openclaw --state-dir {tmp}/openclaw --dry-run
show nobody
search
nonsense
--db {tmp}/none.db status
config set nothing 1
"""

_MASKED = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?|\d{8}[T-]\d{6}(\.\d+)?Z?", "TIME"),
    (r"(?<![0-9a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}(-[0-9a-f]{4,})*(?![0-9a-f])|(?<=-)[0-9a-f]{6}(?=\.bak)", "ID"),
    (r"lcm\.db\.[a-z-]+-TIME-ID", "BACKUP"),
    (r"\S*bridges/openclaw", "PLUGIN"),
    (r"\d[\d,.]* ?(bytes?|[KMGk]i?B|B|ms|s|seconds?|days?)\b", "SIZE"),
)
_VARIES = re.compile(r"bytes|size|seconds|millis|elapsed|mtime|^version$|cursor|score|label", re.IGNORECASE)


def stable(value: Any, tmp: str, key: str = "") -> Any:
    """A value without what differs from run to run or is long; of the items of a list that look alike the first."""
    if isinstance(value, dict) and "tokensByKind" in value:  # the random ids of summaries are part of a prompt
        kinds = value["tokensByKind"]
        value = value | {
            "tokens": "int",
            "tokensByKind": kinds | ({"summaries": "int"} if "summaries" in kinds else {}),
        }
    if isinstance(value, dict):
        return {name: stable(inner, tmp, name) for name, inner in value.items()}
    if isinstance(value, list):
        looks = {repr(sorted(item)) if isinstance(item, dict) else type(item): item for item in reversed(value)}
        return [stable(item, tmp, key) for item in reversed(looks.values())]
    if isinstance(value, float) or (value is not None and _VARIES.search(key)):
        return type(value).__name__
    if not isinstance(value, str):
        return value
    value = value.replace(tmp, "TMP")
    for pattern, name in _MASKED:
        value = re.sub(pattern, name, value)
    return value if len(value) <= 100 else f"{value[:60]} …"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The full names of the commands that can be run, old spellings of single commands included."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in [*command.list_commands(context), *(OLD_SPELLINGS if not path else ())]:
        if name in OLD_GROUPS:
            continue
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


def prepare(tmp: Path, archive: Path) -> dict[str, str]:
    """Files to import, and the names that commands take."""
    lines = [{"role": "user", "content": f"line {n} about quays"} for n in range(3)]
    plain = "".join(json.dumps(line) + "\n" for line in lines)
    chats = tmp / "chats" / "projects" / "-home-u-ferry"
    chats.mkdir(parents=True)
    record = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": "by Claude"}}
    for path, text in {
        tmp / "plain.jsonl": plain,
        tmp / "window.json": json.dumps([*lines, {"role": "assistant", "content": "more"}]),
        tmp / "phrases.txt": "a secret of mine\n",
        chats / "s1.jsonl": json.dumps(record) + "\n",
    }.items():
        path.write_text(text)
    (tmp / "openclaw").mkdir()
    with lossless.open(archive, background=False) as engine:
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        engine.append(
            "agent:main:there",
            [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "a line of the log\n" * 8_000},
            ],
        )
        names = {"root": roots(engine, 1)[0]}
    return names | {"tmp": str(tmp), "plain": plain, "bad": "no JSON\n" + plain}


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are the same in every run, and so is what is sorted by them."""
    monkeypatch.setattr("os.urandom", random.Random(7).randbytes)


@pytest.fixture
def folded(seeded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive that other tests copy, made here with these ids."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    build_folded(path)
    return path


def public_types() -> dict[str, Any]:
    """Of every public name its fields, or else its parameters."""
    found: dict[str, Any] = {}
    for name in lossless.__all__:
        value = getattr(lossless, name)
        if dataclasses.is_dataclass(value):
            found[name] = [field.name for field in dataclasses.fields(value)]
        elif inspect.isclass(value):
            found[name] = [*getattr(value, "_fields", [])] or sorted(
                member for kind in value.__mro__[:-1] for member in vars(kind) if not member.startswith("_")
            )
        elif callable(value):
            found[name] = [*inspect.signature(value).parameters]
    return found


def answers(lcm: Lcm, names: dict[str, str], *options: str) -> Iterator[tuple[str, list[str]]]:
    """What every command says, in order."""
    for line in COMMANDS.strip().splitlines():
        words, _, given = line.partition(" < ")
        answer = lcm(*options, *shlex.split(words.format_map(names)), input=names.get(given))
        yield line, [answer.out, answer.err]


def test_what_programs_read_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, folded: Path, tmp_path: Path, lcm: Lcm
) -> None:
    changed = {"LCM_FRESH_TAIL_COUNT": "4", "LCM_LEAF_CHUNK_TOKENS": "700", "PATH": "", "ANTHROPIC_API_KEY": "k"}
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    names = prepare(tmp_path, folded)
    names["leaf"] = lcm("summaries", "list", "--depth", 0).items[0]["summaryId"]
    names["file"] = lcm("files", "list").items[0]["fileId"]
    lines = COMMANDS.strip().splitlines()
    untried = {name for name in leaves(cli) if not any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert untried == WITHOUT_ENVELOPE
    now: dict[str, dict[str, Any]] = {
        "commands": {
            line: [stable(json.loads(text) if text.startswith("{") else text, str(tmp_path)) for text in shown if text]
            for line, shown in answers(lcm, names, "--json")
        },
        "tools": {tool.name: tool.schema for tool in ALL_TOOLS} | {"openai": openai_tools()[0]},
        "types": public_types(),
    }
    if os.environ.get("LOSSLESS_UPDATE_GOLDEN"):
        parts = [
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in rows.items())
            + "\n}"
            for part, rows in now.items()
        ]
        GOLDEN.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for part, entries in golden.items():
        assert list(now[part]) == list(entries)
        for name, entry in entries.items():
            assert now[part][name] == entry, f"{part}: {name}"

"""An example of every command, and the command page of the documentation, which is generated from the commands and
these examples (`python -m lossless.cli.reference FILE`).
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from lossless.cli.commands import GLOBAL_OPTIONS
from lossless.cli.main import cli
from lossless.settings.page import write_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: One for each command, on an archive that holds a conversation of the session `agent:demo:ferry`.
EXAMPLES = {
    "lcm status": "lcm status",
    "lcm conversations list": "lcm conversations list --limit 20",
    "lcm conversations show": "lcm conversations show --session-key agent:demo:ferry",
    "lcm messages list": "lcm messages list --session-key agent:demo:ferry --role user --limit 5",
    "lcm messages show": "lcm messages show 12",
    "lcm messages tail": "lcm messages tail --session-key agent:demo:ferry --count 8",
    "lcm summaries list": "lcm summaries list --depth 0 --limit 5",
    "lcm summaries show": """\
newest='import json, sys; print(json.load(sys.stdin)["data"]["items"][0]["summaryId"])'
lcm summaries show "$(lcm summaries list --limit 1 | python3 -c "$newest")"
""",
    "lcm grep": "lcm grep 'sandbox merchant'",
    "lcm recall": "lcm recall 'Why did the sandbox merchant fail?'",
    "lcm recent": "lcm recent last week",
    "lcm describe": "lcm describe msg#12",
    "lcm expand": "lcm expand --query 'sandbox merchant' --messages --token-cap 1500",
    "lcm ask": "lcm ask 'Why did the sandbox merchant fail?' --session-key agent:demo:ferry",
    "lcm import openclaw": """\
mkdir -p sessions
printf '%s\\n' '{"type":"session","version":3,"id":"run-7"}' \\
  '{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"hello"}}' > sessions/run-7.jsonl
lcm import openclaw sessions
lcm import openclaw sessions --apply
""",
    "lcm import claude-code": """\
mkdir -p projects/-home-user-ferry
printf '%s\\n' '{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"hello"}}' \\
  > projects/-home-user-ferry/s1.jsonl
lcm import claude-code projects --since 30d --apply
""",
    "lcm import codex": """\
mkdir -p rollouts
printf '%s\\n' '{"type":"session_meta","payload":{"id":"c1"}}' > rollouts/rollout-1.jsonl
lcm import codex rollouts
""",
    "lcm import pi": """\
printf '%s\\n' '{"type":"session","id":"p1"}' '{"type":"message","message":{"role":"user","content":"hello"}}' \\
  > pi.jsonl
lcm import pi pi.jsonl --apply --no-summaries
""",
    "lcm import jsonl": """\
printf '%s\\n' '{"role":"user","content":"hello"}' > messages.jsonl
lcm import jsonl messages.jsonl --apply
""",
    "lcm import chatgpt": """\
printf '%s' '[{"id":"g1","title":"Ferries","mapping":{},"current_node":null}]' > conversations.json
lcm import chatgpt conversations.json
""",
    "lcm bootstrap": """\
printf '%s\\n' '{"type":"session","version":3,"id":"run-8"}' \\
  '{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"hello"}}' > run-8.jsonl
lcm bootstrap run-8.jsonl --session-key agent:main:main
""",
    "lcm transcripts list": "lcm transcripts list --all",
    "lcm transcripts accept": """\
waiting='import json, sys; print(*(item["id"] for item in json.load(sys.stdin)["data"]["items"]))'
for number in $(lcm transcripts | python3 -c "$waiting"); do lcm transcripts accept "$number"; done
""",
    "lcm transcripts refuse": """\
waiting='import json, sys; print(*(item["id"] for item in json.load(sys.stdin)["data"]["items"]))'
for number in $(lcm transcripts | python3 -c "$waiting"); do lcm transcripts refuse "$number"; done
""",
    "lcm quarantine list": "lcm quarantine list",
    "lcm quarantine accept": """\
waiting='import json, sys; print(*(item["conversationId"] for item in json.load(sys.stdin)["data"]["items"]))'
for number in $(lcm quarantine | python3 -c "$waiting"); do lcm quarantine accept "$number"; done
""",
    "lcm quarantine refuse": """\
waiting='import json, sys; print(*(item["conversationId"] for item in json.load(sys.stdin)["data"]["items"]))'
for number in $(lcm quarantine | python3 -c "$waiting"); do lcm quarantine refuse "$number"; done
""",
    "lcm backfill": """\
lcm backfill --session-key agent:demo:ferry --fresh-tail 16 --leaf-chunk-tokens 4000
cp .demo/lcm.db anew.db
lcm --db anew.db backfill --session-key agent:demo:ferry --recompact --single-root --fresh-tail 16 --apply
""",
    "lcm append": """\
lcm append --session-key agent:main:main <<'END'
{"role": "user", "content": "Where is the build log?"}
{"message": {"role": "assistant", "content": "In /var/log."}, "id": "e2", "timestamp": "2026-07-01T09:00:00Z"}
END
""",
    "lcm sync": """\
lcm sync --session-key agent:main:other <<'END'
[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello! What is to be done?"}]
END
""",
    "lcm context": """\
lcm context --session-key agent:demo:ferry --budget 8000
lcm context --session-key agent:demo:ferry --budget 8000 --as anthropic > request.json
""",
    "lcm compact": """\
lcm compact --session-key agent:demo:ferry --budget 8000 --dry-run
lcm compact --session-key agent:demo:ferry --budget 8000
""",
    "lcm worker": "lcm worker --no-model",
    "lcm debt": "lcm debt",
    "lcm pin": "lcm pin --session-key agent:demo:ferry 'Never print secrets.'",
    "lcm unpin": "lcm unpin 1 --session-key agent:demo:ferry",
    "lcm cost": "lcm cost --recency 30d",
    "lcm graph": """\
lcm graph summaries.svg --session-key agent:demo:ferry
lcm graph summaries.dot --session-key agent:demo:ferry
""",
    "lcm tui": "lcm tui --screenshot screen.svg",
    "lcm model test": "lcm model test",
    "lcm new": "lcm new --session-key agent:demo:ferry --retain-depth 1 --yes",
    "lcm reset": "lcm reset --session-key agent:demo:ferry --yes",
    "lcm stub": """\
lcm stub --min-bytes 1000
lcm stub --min-bytes 1000 --apply
""",
    "lcm files list": "lcm files list --limit 20",
    "lcm files show": """\
newest='import json, sys; print(json.load(sys.stdin)["data"]["items"][0]["fileId"])'
lcm files show "$(lcm files list --limit 1 | python3 -c "$newest")"
""",
    "lcm files explore": "lcm files explore --dry-run",
    "lcm files gc": "lcm files gc",
    "lcm verify": """\
lcm verify
echo 'hunter2-and-more' > phrases.txt
lcm verify --absent-from phrases.txt
""",
    "lcm adopt": "lcm adopt",
    "lcm size": "lcm size",
    "lcm backup": """\
lcm backup
lcm backup --rolling
""",
    "lcm backups": "lcm backups",
    "lcm restore": "lcm restore lcm.db.rotate-latest.bak --yes",
    "lcm prune": """\
lcm prune --older-than 90d
lcm prune --to 2GB --session 'agent:*:cron:**' --apply
""",
    "lcm forget": """\
lcm forget the ferry to Oban
lcm forget msg#2 --apply
""",
    "lcm rotate": """\
cat > transcript.jsonl <<'END'
{"type": "session", "version": 3, "id": "s1", "timestamp": "2026-07-01T09:00:00Z"}
{"type": "message", "id": "e2", "parentId": null, "message": {"role": "user", "content": "Where is the build log?"}}
END
lcm rotate --session-key agent:main:main --file transcript.jsonl
""",
    "lcm import lossless-claw": """\
lcm export lossless-claw theirs.db
lcm import lossless-claw theirs.db --dry-run
lcm import lossless-claw theirs.db --session agent:demo:ferry
""",
    "lcm import remnic": """\
lcm export remnic memory.sqlite
lcm import remnic memory.sqlite --dry-run
""",
    "lcm import archive": """\
lcm export archive all.jsonl
lcm import archive all.jsonl --dry-run
""",
    "lcm import-lossless-claw": """\
lcm export lossless-claw openclaw.db
lcm import-lossless-claw --src openclaw.db --dry-run
""",
    "lcm export archive": "lcm export archive copy.jsonl",
    "lcm export lossless-claw": "lcm export lossless-claw claw/lcm.db",
    "lcm export remnic": """\
lcm export remnic remnic.sqlite --dry-run
lcm export remnic remnic.sqlite --session-by session_key
""",
    "lcm export jsonl": "lcm export jsonl messages",
    "lcm export markdown": "lcm export markdown notes --session agent:demo:ferry",
    "lcm export html": "lcm export html pages",
    "lcm dissolve": """\
cp .demo/lcm.db demo.db
root='import json, sys; print(max(json.load(sys.stdin)["data"]["items"], key=lambda item: item["depth"])["summaryId"])'
lcm --db demo.db dissolve "$(lcm --db demo.db summaries list | python3 -c "$root")" --apply
""",
    "lcm rewrite": """\
lcm --db demo.db rewrite --session-key agent:demo:ferry --depth 1 --diff
lcm --db demo.db rewrite --extractive
""",
    "lcm repair": "lcm --db demo.db repair --session-key agent:demo:ferry --apply",
    "lcm transplant": """\
lcm --db demo.db append --session-key agent:demo:other <<'END'
{"role": "user", "content": "What do we know about the ferry?"}
END
lcm --db demo.db transplant --from 1 --to 2 --apply
""",
    "lcm merge": """\
lcm --db demo.db merge --session-key agent:demo:ferry || echo 'it is not split'
""",
    "lcm undo": """\
lcm --db demo.db undo --session-key agent:demo:ferry
lcm --db demo.db undo --session-key agent:demo:ferry --apply
""",
    "lcm diff": "lcm --db demo.db diff --session-key agent:demo:ferry --since 0",
    "lcm focus": "lcm --db demo.db focus 'Why did the sandbox merchant fail?' --session-key agent:demo:ferry",
    "lcm refocus": "lcm --db demo.db refocus --session-key agent:demo:ferry",
    "lcm unfocus": "lcm --db demo.db unfocus --session-key agent:demo:ferry",
    "lcm prompts list": "lcm prompts list",
    "lcm prompts show": "lcm prompts show leaf",
    "lcm prompts export": "lcm prompts export prompts",
    "lcm prompts diff": "lcm prompts export prompts && lcm prompts diff --prompt-dir prompts",
    "lcm prompts render": "lcm prompts render condensed-d1 --prompt-dir prompts",
    "lcm doctor examine": """\
lcm --db demo.db doctor --offline
lcm --db demo.db doctor examine --offline
""",
    "lcm doctor apply": "lcm --db demo.db doctor apply",
    "lcm doctor clean": """\
lcm --db demo.db doctor clean
lcm --db demo.db doctor clean --apply cron_sessions --vacuum
""",
    "lcm doctor maintenance": "lcm --db demo.db doctor maintenance",
    "lcm doctor reindex": "lcm --db demo.db doctor reindex",
    "lcm doctor rebuild": "lcm --db demo.db doctor rebuild",
    "lcm doctor rollover-splits": "lcm --db demo.db doctor rollover-splits",
    "lcm mcp": """\
lcm mcp < /dev/null
""",
    "lcm proxy": "lcm proxy --check",
    "lcm install claude-code": """\
lcm install claude-code --dry-run
mkdir -p project
lcm install claude-code --project project
lcm install claude-code --project project --doctor
""",
    "lcm install codex": "lcm install codex --dry-run",
    "lcm uninstall claude-code": "lcm uninstall claude-code --project project",
    "lcm uninstall codex": "lcm uninstall codex --dry-run",
    "lcm install openclaw": "lcm install openclaw --state-dir openclaw",
    "lcm uninstall openclaw": "lcm uninstall openclaw --state-dir openclaw",
    "lcm bridge": """\
echo '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}' | lcm bridge
""",
    "lcm hook": """\
echo '{"hook_event_name": "Stop", "transcript_path": "none.jsonl"}' | lcm hook
""",
    "lcm config show": "lcm config show",
    "lcm config get": "lcm config get freshTailCount",
    "lcm config set": "lcm config set freshTailCount 96",
}


def lines_for_help(command: str) -> Iterator[str]:
    """The lines of a command's example that a person would type, with the input that belongs to them.

    >>> list(lines_for_help("lcm summaries show"))
    ['lcm summaries show ID']
    """
    in_input = False
    for line in EXAMPLES.get(command, "").splitlines():
        if line.startswith("lcm ") or in_input:
            typed = line.replace("lcm --db demo.db ", "lcm ").replace("lcm --db anew.db ", "lcm ")
            yield re.sub(r'"\$\(.*\)"', "ID", typed)
            in_input = ("<<" in line) if line.startswith("lcm ") else line != "END"


_INTRO = """\
# The `lcm` command

This page is made from the commands; `python -m lossless.cli.reference docs/reference/cli.md` writes it anew.

`append`, `sync`, `bootstrap`, `transcripts`, `quarantine`, `compact`, `worker`, `pin`, `unpin`, `new`, `reset`,
`backup`, `restore`, `config set`, `files explore` and the imports of [archives](../transfer.md) write; with `--apply`
also `adopt`, `stub`, `prune`, `forget`, `rotate`, `files gc`, `backfill` and the imports of transcripts; `ask` counts
the model calls that it makes.
[Surgery](../surgery.md) and the [doctor](../doctor.md) write with `--apply` or `--confirm`, `focus`, `refocus` and
`unfocus` without; `hook` and `mcp` serve [agents](../hosts/claude-code.md), `install` and `uninstall` change files of
their hosts. All others open the archive for reading only and leave its bytes as they are.

## What is printed

At a terminal `lcm` prints tables. When its output goes elsewhere, or with `--format json`, it prints one JSON
document:

```json
{"ok": true, "command": "messages.list", "data": {"items": []},
 "pagination": {"limit": 50, "returned": 0, "hasMore": false, "nextCursor": null},
 "meta": {"databasePath": "/home/me/.openclaw/lcm.db", "configPath": null}}
```

Times in JSON are ISO-8601 in UTC; in tables they are in the zone of the setting `timezone`, else of the system. A
list gives at most `--limit` rows, 1 to 500, newest first; `--cursor` with the `nextCursor` of one page gives the next.
A cursor is good for the list it came from.

A failure is one JSON document on standard error, or a sentence at a terminal:

```json
{"ok": false, "error": {"code": "not_found", "message": "…", "details": {}}}
```

| Exit code | Meaning |
| --- | --- |
| 0 | all is well |
| 1 | something unexpected happened; or something is wrong, was refused or could not be written: the answer says what |
| 2 | a wrong command, option, filter or cursor, or input that holds no message |
| 3 | there is no such archive, config file, conversation, message, summary or setting |
| 4 | the config file, or a setting in it, cannot be used |
| 5 | the archive cannot be opened, read or written |
| 130 | interrupted |

With `LCM_DEBUG=1` an unexpected error shows where it happened.
"""


def reference_page() -> str:
    """The page as Markdown."""
    context = click.Context(cli, info_name="lcm")
    parts = [_INTRO, f"## Global options\n\nBefore or after the subcommand.\n\n{_options(GLOBAL_OPTIONS, context)}"]
    parts += [_section(command, context) for command, context in _commands(cli, context)]
    return "\n".join(parts)


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command that can be run, with the context that names it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield command, inner


def _section(command: click.Command, context: click.Context) -> str:
    """A command: how it is called, what it does, what it takes."""
    arguments = "".join(
        f" {param.make_metavar(context)}" for param in command.params if isinstance(param, click.Argument)
    )
    options = [param for param in command.params if isinstance(param, click.Option)]
    call = f"{context.command_path}{' [OPTIONS]' if options else ''}{arguments}"
    about = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    table = f"\n{_options(options, context)}" if options else ""
    example = EXAMPLES[context.command_path].strip()
    head = f"## `{context.command_path}`\n\n```text\n{call}\n```"
    return f"{head}\n\n{about}\n\n```sh\n{example}\n```\n{table}"


def _options(options: Iterable[click.Option], context: click.Context) -> str:
    rows = [("Option", "Meaning"), ("---", "---")]
    for option in options:
        record = option.get_help_record(context)
        assert record is not None
        rows.append((f"`{record[0]}`", " ".join(record[1].split())))
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def write_reference_page(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    return write_page("lossless.cli.reference", reference_page, arguments)


if __name__ == "__main__":
    sys.exit(write_reference_page(sys.argv[1:]))

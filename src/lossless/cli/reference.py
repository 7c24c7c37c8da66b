"""An example of every command, and the command page of the documentation, which is generated from the commands and
these examples (`python -m lossless.cli.reference FILE`).
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from lossless.cli.commands import GLOBAL_OPTIONS
from lossless.cli.main import OLD_SPELLINGS, TUI_HELP, cli
from lossless.settings.page import write_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: One for each command, on an archive that holds a conversation of the session `agent:demo:ferry`.
EXAMPLES = {
    "lcm init": "lcm init --dry-run",
    "lcm demo": "lcm demo",
    "lcm status": """\
lcm status
lcm status --cost --since 30d
lcm status --size
""",
    "lcm list": "lcm list --since '3 March' --limit 20",
    "lcm show": """\
lcm show agent:demo:ferry --limit 5
lcm show @last --details
lcm show msg#12
""",
    "lcm search": """\
lcm search sandbox merchant
lcm search -s @last sandbox merchant --json
""",
    "lcm recall": "lcm recall 'Why did the sandbox merchant fail?'",
    "lcm recent": "lcm recent last week",
    "lcm summary expand": "lcm summary expand --query 'sandbox merchant' --messages --token-cap 1500",
    "lcm ask": "lcm ask 'Why did the sandbox merchant fail?' -s agent:demo:ferry",
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
    "lcm session bootstrap": """\
printf '%s\\n' '{"type":"session","version":3,"id":"run-8"}' \\
  '{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"hello"}}' > run-8.jsonl
lcm session bootstrap run-8.jsonl -s agent:main:main
""",
    "lcm session transcripts list": "lcm session transcripts list --all",
    "lcm session transcripts accept": "lcm session transcripts accept 1 || echo 'there is none'",
    "lcm session transcripts refuse": "lcm session transcripts refuse 1 || echo 'there is none'",
    "lcm session quarantine list": "lcm session quarantine list",
    "lcm session quarantine accept": "lcm session quarantine accept 1 || echo 'there is none'",
    "lcm session quarantine refuse": "lcm session quarantine refuse 1 || echo 'there is none'",
    "lcm summary backfill": """\
lcm summary backfill -s agent:demo:ferry --fresh-tail 16 --leaf-chunk-tokens 4000 --dry-run
cp .demo/lcm.db anew.db
lcm --db anew.db summary backfill -s agent:demo:ferry --recompact --single-root --fresh-tail 16 --yes
""",
    "lcm append": """\
lcm append -s agent:main:main <<'END'
{"role": "user", "content": "Where is the build log?"}
{"message": {"role": "assistant", "content": "In /var/log."}, "id": "e2", "timestamp": "2026-07-01T09:00:00Z"}
END
""",
    "lcm sync": """\
lcm sync -s agent:main:other <<'END'
[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello! What is to be done?"}]
END
""",
    "lcm context": """\
lcm context -s agent:demo:ferry --budget 8000
lcm context -s agent:demo:ferry --budget 8000 --as anthropic > request.json
""",
    "lcm compact": """\
lcm compact -s agent:demo:ferry --budget 8000 --dry-run
lcm compact -s agent:demo:ferry --budget 8000
""",
    "lcm worker": """\
lcm worker --dry-run
lcm worker --no-model
""",
    "lcm pin": "lcm pin -s agent:demo:ferry 'Never print secrets.'",
    "lcm unpin": "lcm unpin 1 -s agent:demo:ferry",
    "lcm summary graph": """\
lcm summary graph summaries.svg -s agent:demo:ferry
lcm summary graph summaries.dot -s agent:demo:ferry
""",
    "lcm tui": "lcm tui --screenshot screen.svg",
    "lcm model test": "lcm model test",
    "lcm model use": "lcm model use none",
    "lcm session new": "lcm session new -s agent:demo:ferry --retain-depth 1 --yes",
    "lcm session reset": "lcm session reset -s agent:demo:ferry --yes",
    "lcm files stub": """\
lcm files stub --min-bytes 1000 --dry-run
lcm files stub --min-bytes 1000
""",
    "lcm files list": "lcm files list --limit 20",
    "lcm files show": """\
lcm files stub --min-bytes 1000
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
    "lcm doctor adopt": "lcm doctor adopt --dry-run",
    "lcm backup": """\
lcm backup
lcm backup --rolling
lcm backup --list
""",
    "lcm restore": "lcm restore lcm.db.rotate-latest.bak --yes",
    "lcm prune": """\
lcm prune --older-than 90d --dry-run
lcm prune --to 2GB -s 'agent:*:cron:**' --yes
""",
    "lcm forget": """\
lcm forget the ferry to Oban --dry-run
lcm forget msg#2 --yes
""",
    "lcm session rotate": """\
cat > transcript.jsonl <<'END'
{"type": "session", "version": 3, "id": "s1", "timestamp": "2026-07-01T09:00:00Z"}
{"type": "message", "id": "e2", "parentId": null, "message": {"role": "user", "content": "Where is the build log?"}}
END
lcm session rotate -s agent:main:main --file transcript.jsonl
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
    "lcm export archive": "lcm export archive copy.jsonl",
    "lcm export lossless-claw": "lcm export lossless-claw claw/lcm.db",
    "lcm export remnic": """\
lcm export remnic remnic.sqlite --dry-run
lcm export remnic remnic.sqlite --session-by session_key
""",
    "lcm export jsonl": "lcm export jsonl messages",
    "lcm export markdown": "lcm export markdown notes --session agent:demo:ferry",
    "lcm export html": "lcm export html pages",
    "lcm summary dissolve": """\
root='import json, sys; print(max(json.load(sys.stdin)["data"]["items"], key=lambda item: item["depth"])["summaryId"])'
lcm --db demo.db summary dissolve "$(lcm --db demo.db summary list --json | python3 -c "$root")"
""",
    "lcm summary rewrite": """\
lcm --db demo.db summary rewrite -s agent:demo:ferry --depth 1 --diff --dry-run
lcm --db demo.db summary rewrite --extractive --dry-run
""",
    "lcm summary repair": "lcm --db demo.db summary repair -s agent:demo:ferry --yes",
    "lcm summary transplant": """\
lcm --db demo.db append -s agent:demo:other <<'END'
{"role": "user", "content": "What do we know about the ferry?"}
END
lcm --db demo.db summary transplant --from 1 --to 2
""",
    "lcm session merge": "lcm --db demo.db session merge -s agent:demo:ferry || echo 'it is not split'",
    "lcm summary undo": """\
lcm --db demo.db summary undo -s agent:demo:ferry --dry-run
lcm --db demo.db summary undo -s agent:demo:ferry
""",
    "lcm summary diff": """\
cp .demo/lcm.db demo.db
lcm --db demo.db summary diff -s agent:demo:ferry --since 0
""",
    "lcm summary focus": "lcm --db demo.db summary focus 'Why did the merchant fail?' -s agent:demo:ferry --yes",
    "lcm summary refocus": "lcm --db demo.db summary refocus -s agent:demo:ferry --yes",
    "lcm summary unfocus": "lcm --db demo.db summary unfocus -s agent:demo:ferry",
    "lcm summary prompts list": "lcm summary prompts list",
    "lcm summary prompts show": "lcm summary prompts show leaf",
    "lcm summary prompts export": "lcm summary prompts export prompts",
    "lcm summary prompts diff": "lcm prompts export prompts && lcm summary prompts diff --prompt-dir prompts",
    "lcm summary prompts render": "lcm summary prompts render condensed-d1 --prompt-dir prompts",
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
    "lcm mcp": "lcm mcp < /dev/null",
    "lcm proxy": "lcm proxy --check",
    "lcm connect claude-code": """\
lcm connect claude-code --dry-run
mkdir -p project
lcm connect claude-code --project project
lcm connect claude-code --project project --doctor
""",
    "lcm connect codex": "lcm connect codex --dry-run",
    "lcm disconnect claude-code": "lcm disconnect claude-code --project project",
    "lcm disconnect codex": "lcm disconnect codex --dry-run",
    "lcm connect openclaw": "lcm connect openclaw --state-dir openclaw",
    "lcm disconnect openclaw": "lcm disconnect openclaw --state-dir openclaw",
    "lcm config show": "lcm config show",
    "lcm config get": "lcm config get freshTailCount",
    "lcm config set": "lcm config set contextThreshold 60%",
    "lcm summary list": "lcm summary list --depth 0 --limit 5",
    "lcm import": """\
mkdir -p chats
printf '%s\\n' '{"role":"user","content":"good morning"}' > chats/morning.jsonl
lcm import chats --dry-run
lcm import chats
""",
    "lcm completion": "lcm completion bash > completion.sh",
}


def lines_for_help(command: str) -> Iterator[str]:
    """The lines of a command's example that a person would type, with the input that belongs to them.

    >>> list(lines_for_help("lcm summary dissolve"))
    ['lcm summary dissolve ID']
    """
    in_input = False
    for line in EXAMPLES.get(command, "").splitlines():
        if line.startswith("lcm ") or in_input:
            typed = line.replace("lcm --db demo.db ", "lcm ").replace("lcm --db anew.db ", "lcm ")
            yield re.sub(r'"\$\(.*\)"', "ID", typed)
            in_input = ("<<" in line) if line.startswith("lcm ") else line != "END"


_INTRO = """\
# The `lcm` command

This page is made from the commands; `python -m lossless.cli.reference docs/reference/cli.md` writes it.

Reading never asks and never changes the archive. What can be undone happens at once, and the answer names its undo.
What deletes text permanently, or costs money, shows its plan and asks; in scripts, `--yes` is the answer. `--dry-run`
shows the plan and changes nothing. Exceptions are `ask`, which counts the model calls that it makes, and commands with
`--apply`, which keep the habits of earlier versions: without it, they only show what they would do.

A conversation is named with `-s`: its session key, its number in `lcm list`, `@last` for the one that changed last, or
`@live` for the last that is open. `--session-key`, `--session-id` and `--conversation-id` take one kind of name each.
Times are written as people write them: `2026-07-01`, `yesterday`, `'3 March'`, `30d`. [Other spellings](aliases.md)
lists the commands of earlier versions, of lossless-claw and of `lcm-tui`; they all work.

## What is printed

At a terminal `lcm` prints tables, and with `--json` one JSON document. When its output goes elsewhere, `lcm`
alone, `init`, `demo`, `model`, `list`, `show`, `search`, `summary`, `session`, `connect`, `disconnect` and
`import PATH` print text, the others JSON:

```json
{"ok": true, "command": "list", "data": {"items": []},
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
            if name == "import":
                kindless = command.get_command(inner, "auto")
                assert kindless is not None
                yield kindless, click.Context(kindless, context, info_name="import")
            yield from _commands(command, inner)
        else:
            yield command, inner


def _section(command: click.Command, context: click.Context) -> str:
    """A command: how it is called, what it does, what it takes."""
    arguments = "".join(
        f" {param.make_metavar(context)}" for param in command.params if isinstance(param, click.Argument)
    )
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
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


_ALIASES = """\
# Other spellings

This page is made from the commands; `python -m lossless.cli.reference docs/reference/aliases.md` writes it.

Every spelling on the left works and does what it did, with its own habits: it changes nothing without `--apply` (or
`--confirm`) where it had one, and prints JSON when its output goes elsewhere. `--help` shows its options.

| Earlier | Now |
| --- | --- |
"""
#: More than one word: the commands of a group that was split up.
_INNER = {
    "conversations list": "list",
    "conversations show": "show KEY --details",
    "messages list": "show KEY",
    "messages show": "show msg#12",
    "messages tail": "context -s KEY --items",
    "summaries list": "summary list",
    "summaries show": "show sum_…",
}
_PROGRAMS = """
## For programs

`lcm bridge` answers OpenClaw's plugin, `lcm hook` answers one hook of a host (`lcm-hook` is the same and starts
faster). Hosts start them; people do not type them.

## `lcm-tui`

An executable with the spellings of lossless-claw's terminal program. Alone, it opens `lcm tui`.

```text
"""
_SLASH = """```

## `/lcm` and `/lossless` in OpenClaw

`status`, `backup`, `rotate`, `focus`, `refocus`, `unfocus`, `doctor`, `doctor apply`, `doctor clean`,
`doctor rollover-splits` and `doctor maintenance` are answered [by the plugin](../hosts/openclaw.md).
"""


def aliases_page() -> str:
    """The page of old spellings as Markdown."""
    rows = _INNER | {
        name: entry.help for name, entry in OLD_SPELLINGS.items() if entry.help and f"{name} list" not in _INNER
    }
    table = "".join(f"| `lcm {old}` | `lcm {new}` |\n" for old, new in rows.items())
    tui = TUI_HELP.partition("\n\n")[2]
    return f"{_ALIASES}{table}{_PROGRAMS}{tui}\n{_SLASH}"


def write_reference_page(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date; aliases.md is the page of old spellings."""
    is_aliases = any(argument.endswith("aliases.md") for argument in arguments)
    return write_page("lossless.cli.reference", aliases_page if is_aliases else reference_page, arguments)


if __name__ == "__main__":
    sys.exit(write_reference_page(sys.argv[1:]))

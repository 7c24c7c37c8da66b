"""An example of each command: the command page runs them all, and `--help` shows them without their preparations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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

"""Answers on standard output: JSON for programs, a view of the same data for people."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, overload

import click

from lossless.cli.failures import printable
from lossless.model.times import state_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lossless.cli.commands import Invocation

#: A preview is one line of at most this many characters.
PREVIEW_CHARS = 160

#: What a person sees of each answer: the function that prints it, loaded when it is needed.
VIEWS = {
    "status": "lossless.cli.status:print_status",
    "list": "lossless.cli.conversations:print_list",
    "show": "lossless.cli.conversations:print_shown",
    "overview": "lossless.cli.init:print_overview",
    "conversations.list": "lossless.cli.conversations:print_conversations",
    "conversations.show": "lossless.cli.conversations:print_conversation",
    "messages.list": "lossless.cli.conversations:print_messages",
    "messages.tail": "lossless.cli.conversations:print_tail",
    "messages.show": "lossless.cli.conversations:print_message",
    "summaries.list": "lossless.cli.conversations:print_summaries",
    "summaries.show": "lossless.cli.conversations:print_summary",
    "append": "lossless.cli.append:print_append",
    "sync": "lossless.cli.append:print_sync",
    "verify": "lossless.cli.append:print_verify",
    "adopt": "lossless.cli.append:print_adopt",
    "config.show": "lossless.cli.append:print_settings",
    "config.get": "lossless.cli.append:print_setting",
    "config.set": "lossless.cli.append:print_setting_change",
    "install": "lossless.cli.install:print_changes",
    "uninstall": "lossless.cli.install:print_changes",
    "install.doctor": "lossless.cli.install:print_checks",
    "backup": "lossless.cli.retention:print_backup",
    "backups": "lossless.cli.retention:print_backups",
    "restore": "lossless.cli.retention:print_restore",
    "size": "lossless.cli.retention:print_size",
    "prune": "lossless.cli.retention:print_prune",
    "forget": "lossless.cli.retention:print_forget",
    "verify absent": "lossless.cli.retention:print_absent",
    "rotate": "lossless.cli.retention:print_rotate",
    "context": "lossless.cli.context:print_context",
    "context-history": "lossless.cli.context:print_prompt_history",
    "compact": "lossless.cli.context:print_compaction",
    "worker": "lossless.cli.context:print_worker",
    "debt": "lossless.cli.context:print_pending",
    "pin": "lossless.cli.context:print_pin",
    "unpin": "lossless.cli.context:print_unpin",
    "new": "lossless.cli.context:print_new",
    "reset": "lossless.cli.context:print_reset",
    "cost": "lossless.cli.context:print_cost",
    "model": "lossless.cli.model:print_model",
    "model.use": "lossless.cli.model:print_model_use",
    "model.test": "lossless.cli.context:print_model_test",
    "search": "lossless.cli.recall:print_hits",
    "grep": "lossless.cli.recall:print_hits",
    "recall": "lossless.cli.recall:print_evidence",
    "recent": "lossless.cli.recall:print_recent",
    "dissolve": "lossless.cli.surgery:print_operation",
    "transplant": "lossless.cli.surgery:print_operation",
    "merge": "lossless.cli.surgery:print_operation",
    "undo": "lossless.cli.surgery:print_operation",
    "diff": "lossless.cli.surgery:print_context_diff",
    "rewrite": "lossless.cli.surgery:print_rewrites",
    "repair": "lossless.cli.surgery:print_rewrites",
    "focus": "lossless.cli.surgery:print_focus",
    "refocus": "lossless.cli.surgery:print_focus",
    "unfocus": "lossless.cli.surgery:print_focus",
    "prompts.list": "lossless.cli.surgery:print_prompts",
    "prompts.show": "lossless.cli.surgery:print_prompt",
    "prompts.export": "lossless.cli.surgery:print_prompts_export",
    "prompts.diff": "lossless.cli.surgery:print_prompts_diff",
    "prompts.render": "lossless.cli.surgery:print_rendered_prompt",
    "doctor": "lossless.cli.surgery:print_examination",
    "doctor.apply": "lossless.cli.surgery:print_repairs",
    "doctor.clean": "lossless.cli.surgery:print_clean",
    "doctor.maintenance": "lossless.cli.surgery:print_maintenance",
    "doctor.reindex": "lossless.cli.surgery:print_reindex",
    "doctor.rebuild": "lossless.cli.surgery:print_rebuild",
    "doctor.rollover-splits": "lossless.cli.surgery:print_splits",
    "describe": "lossless.cli.files:print_text",
    "expand": "lossless.cli.files:print_text",
    "ask": "lossless.cli.files:print_answer",
    "files.list": "lossless.cli.files:print_files",
    "files.show": "lossless.cli.files:print_file",
    "files.explore": "lossless.cli.files:print_explored",
    "files.gc": "lossless.cli.files:print_garbage",
    "stub": "lossless.cli.files:print_stubs",
    "graph": "lossless.cli.charts:print_graph",
    "tui": "lossless.cli.charts:print_screenshot",
    "proxy": "lossless.cli.serve:print_proxy",
    "bootstrap": "lossless.cli.transcripts:print_bootstrap",
    "transcripts list": "lossless.cli.transcripts:print_transcripts",
    "transcripts accept": "lossless.cli.transcripts:print_bootstrap",
    "transcripts refuse": "lossless.cli.transcripts:print_transcript_refused",
    "quarantine list": "lossless.cli.transcripts:print_quarantine",
    "quarantine accept": "lossless.cli.transcripts:print_quarantine_accepted",
    "quarantine refuse": "lossless.cli.transcripts:print_quarantine_refused",
    "import": "lossless.cli.transcripts:print_transcript_import",
    "backfill": "lossless.cli.transcripts:print_backfill",
    "import.lossless-claw": "lossless.cli.imports:print_import",
    "import.remnic": "lossless.cli.imports:print_import",
    "import.archive": "lossless.cli.imports:print_import",
    "import-lossless-claw": "lossless.cli.imports:print_import",
    "export.archive": "lossless.cli.imports:print_export",
    "export.lossless-claw": "lossless.cli.imports:print_export",
    "export.remnic": "lossless.cli.imports:print_export",
    "export.jsonl": "lossless.cli.imports:print_export",
    "export.markdown": "lossless.cli.imports:print_export",
    "export.html": "lossless.cli.imports:print_export",
}


def write_json(envelope: dict[str, Any], *, pretty: bool = False) -> None:
    """One JSON document; what UTF-8 cannot hold is escaped."""
    shape: dict[str, Any] = {"default": _json_default, "indent": 2 if pretty else None}
    try:
        document = json.dumps(envelope, ensure_ascii=False, **shape).encode()
    except UnicodeEncodeError:
        document = json.dumps(envelope, **shape).encode()
    click.echo(document)


def write_view(command: str, data: dict[str, Any], pagination: dict[str, Any] | None, invocation: Invocation) -> None:
    """The data as a person likes to see it."""
    from lossless.cli.screen import Screen

    loaded = invocation.loaded
    for notice in loaded.warnings:
        click.secho(printable(f"Warning: {notice}"), fg="yellow", err=True)
    screen = Screen(loaded.settings.timezone, invocation.rule)
    module, _, view = VIEWS[command].partition(":")
    getattr(import_module(module), view)(screen, data)
    if pagination is not None:
        screen.footer(pagination)


def _json_default(value: object) -> object:
    if isinstance(value, datetime):
        return state_time(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def camel_case(name: str) -> str:
    """A name as JSON spells it.

    >>> camel_case("max_summary_depth")
    'maxSummaryDepth'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@overload
def to_json(value: DataclassInstance) -> dict[str, Any]: ...


@overload
def to_json(value: Any) -> Any: ...


def to_json(value: Any) -> Any:
    """A value with all values inside it, fields under JSON's names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel_case(field.name): to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(value)
    return str(value) if isinstance(value, PurePath) else value


def pick_json(value: DataclassInstance, *names: str) -> dict[str, Any]:
    """Some fields and properties of a value under JSON's names, in this order."""
    return {camel_case(name): to_json(getattr(value, name)) for name in names}


def preview(text: str) -> str:
    """The beginning of a text on one line.

    >>> preview("two\\n  lines")
    'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"

"""Answers on standard output: JSON for programs, a view of the same data for people."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.failures import printable
from lossless.model.times import state_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lossless.settings import Loaded

#: A preview is one line of at most this many characters.
PREVIEW_CHARS = 160

#: What a person sees of each answer: the function that prints it, loaded when it is needed.
VIEWS = {
    "status": "lossless.cli.views:status",
    "conversations.list": "lossless.cli.views:conversations_list",
    "conversations.show": "lossless.cli.views:conversations_show",
    "messages.list": "lossless.cli.views:messages_list",
    "messages.tail": "lossless.cli.views:messages_tail",
    "messages.show": "lossless.cli.views:messages_show",
    "summaries.list": "lossless.cli.views:summaries_list",
    "summaries.show": "lossless.cli.views:summaries_show",
    "append": "lossless.cli.reports:append",
    "sync": "lossless.cli.reports:sync",
    "verify": "lossless.cli.reports:verify",
    "adopt": "lossless.cli.reports:adopt",
    "config.show": "lossless.cli.reports:config_show",
    "config.get": "lossless.cli.reports:config_get",
    "config.set": "lossless.cli.reports:config_set",
    "install": "lossless.cli.install_views:changed",
    "uninstall": "lossless.cli.install_views:changed",
    "install.doctor": "lossless.cli.install_views:examined",
    "backup": "lossless.cli.keeping_views:backup",
    "backups": "lossless.cli.keeping_views:backups",
    "restore": "lossless.cli.keeping_views:restore",
    "size": "lossless.cli.keeping_views:size",
    "prune": "lossless.cli.keeping_views:prune",
    "forget": "lossless.cli.keeping_views:forget",
    "verify absent": "lossless.cli.keeping_views:absent",
    "rotate": "lossless.cli.keeping_views:rotate",
    "context": "lossless.cli.loop_views:context",
    "compact": "lossless.cli.loop_views:compact",
    "worker": "lossless.cli.loop_views:worker",
    "debt": "lossless.cli.loop_views:debt",
    "pin": "lossless.cli.loop_views:pin",
    "unpin": "lossless.cli.loop_views:unpin",
    "new": "lossless.cli.loop_views:new",
    "reset": "lossless.cli.loop_views:reset",
    "cost": "lossless.cli.loop_views:cost",
    "model.test": "lossless.cli.loop_views:model_test",
    "grep": "lossless.cli.search_views:grep",
    "recall": "lossless.cli.search_views:recall",
    "dissolve": "lossless.cli.surgery_views:operation",
    "transplant": "lossless.cli.surgery_views:operation",
    "merge": "lossless.cli.surgery_views:operation",
    "undo": "lossless.cli.surgery_views:operation",
    "diff": "lossless.cli.surgery_views:diff",
    "rewrite": "lossless.cli.surgery_views:rewrite",
    "repair": "lossless.cli.surgery_views:rewrite",
    "focus": "lossless.cli.surgery_views:focus",
    "refocus": "lossless.cli.surgery_views:focus",
    "unfocus": "lossless.cli.surgery_views:focus",
    "prompts.list": "lossless.cli.surgery_views:prompts_list",
    "prompts.show": "lossless.cli.surgery_views:prompts_show",
    "prompts.export": "lossless.cli.surgery_views:prompts_export",
    "prompts.diff": "lossless.cli.surgery_views:prompts_diff",
    "prompts.render": "lossless.cli.surgery_views:prompts_render",
    "doctor": "lossless.cli.surgery_views:doctor",
    "doctor.apply": "lossless.cli.surgery_views:repairs",
    "doctor.clean": "lossless.cli.surgery_views:doctor_clean",
    "doctor.maintenance": "lossless.cli.surgery_views:doctor_maintenance",
    "doctor.reindex": "lossless.cli.surgery_views:doctor_reindex",
    "doctor.rebuild": "lossless.cli.surgery_views:doctor_rebuild",
    "doctor.rollover-splits": "lossless.cli.surgery_views:doctor_splits",
    "describe": "lossless.cli.opening_views:opened",
    "expand": "lossless.cli.opening_views:opened",
    "ask": "lossless.cli.opening_views:ask",
    "files.list": "lossless.cli.opening_views:files_list",
    "files.show": "lossless.cli.opening_views:files_show",
    "files.explore": "lossless.cli.opening_views:files_explore",
    "files.gc": "lossless.cli.opening_views:files_gc",
    "stub": "lossless.cli.opening_views:stub",
    "graph": "lossless.cli.picture_views:graph",
    "tui": "lossless.cli.picture_views:screenshot",
    "proxy": "lossless.cli.proxy:view",
    "bootstrap": "lossless.cli.transcript_views:bootstrap",
    "transcripts list": "lossless.cli.transcript_views:transcripts",
    "transcripts accept": "lossless.cli.transcript_views:bootstrap",
    "transcripts refuse": "lossless.cli.transcript_views:refuse",
    "quarantine list": "lossless.cli.transcript_views:quarantine",
    "quarantine accept": "lossless.cli.transcript_views:quarantine_accepted",
    "quarantine refuse": "lossless.cli.transcript_views:quarantine_refused",
    "import": "lossless.cli.transcript_views:import_",
    "backfill": "lossless.cli.transcript_views:backfill",
    "import.lossless-claw": "lossless.cli.transfer_views:imported",
    "import.remnic": "lossless.cli.transfer_views:imported",
    "import.archive": "lossless.cli.transfer_views:imported",
    "import-lossless-claw": "lossless.cli.transfer_views:imported",
    "export.archive": "lossless.cli.transfer_views:exported",
    "export.lossless-claw": "lossless.cli.transfer_views:exported",
    "export.remnic": "lossless.cli.transfer_views:exported",
    "export.jsonl": "lossless.cli.transfer_views:exported",
    "export.markdown": "lossless.cli.transfer_views:exported",
    "export.html": "lossless.cli.transfer_views:exported",
}


def write_json(envelope: dict[str, Any], *, pretty: bool = False) -> None:
    """One JSON document; what UTF-8 cannot hold is escaped."""
    shape: dict[str, Any] = {"default": _plain, "indent": 2 if pretty else None}
    try:
        document = json.dumps(envelope, ensure_ascii=False, **shape).encode()
    except UnicodeEncodeError:
        document = json.dumps(envelope, **shape).encode()
    click.echo(document)


def write_view(command: str, data: dict[str, Any], pagination: dict[str, Any] | None, loaded: Loaded) -> None:
    """The data as a person likes to see it."""
    from lossless.cli.screen import Screen

    for notice in loaded.warnings:
        click.secho(printable(f"Warning: {notice}"), fg="yellow", err=True)
    screen = Screen(loaded.settings.timezone)
    module, _, view = VIEWS[command].partition(":")
    getattr(import_module(module), view)(screen, data)
    if pagination is not None:
        screen.footer(pagination)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return state_time(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def camel(name: str) -> str:
    """A name as JSON spells it.

    >>> camel("max_summary_depth")
    'maxSummaryDepth'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def shape(value: DataclassInstance) -> dict[str, Any]:
    """A value's fields under JSON's names."""
    return {camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}


def shape_if_there(value: DataclassInstance | None) -> dict[str, Any] | None:
    """A value's fields under JSON's names; None when there is no value."""
    return None if value is None else shape(value)


def preview(text: str) -> str:
    """The beginning of a text on one line.

    >>> preview("two\\n  lines")
    'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"

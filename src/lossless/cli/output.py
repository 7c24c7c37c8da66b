"""Answers on standard output: JSON for programs, a view of the same data for people."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.failures import printable
from lossless.model.times import state_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lossless.settings import Loaded

#: A preview is one line of at most this many characters.
PREVIEW_CHARS = 160


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
    from lossless.cli.views import VIEWS

    for notice in loaded.warnings:
        click.secho(printable(f"Warning: {notice}"), fg="yellow", err=True)
    screen = Screen(loaded.settings.timezone)
    VIEWS[command](screen, data)
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

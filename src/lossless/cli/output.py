"""Answers on standard output: JSON for programs, a view of the same data for people."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, overload

import click

from lossless.cli.failures import printable
from lossless.model.times import state_time
from lossless.settings.setting import camel_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance

    from lossless.cli.commands import Invocation
    from lossless.cli.screen import Data, Screen

#: A preview is one line of at most this many characters.
PREVIEW_CHARS = 160


def write_json(envelope: Data, *, pretty: bool = False) -> None:
    """One JSON document; what UTF-8 cannot hold is escaped."""
    shape: Data = {"default": state_time, "indent": 2 if pretty else None}
    try:
        document = json.dumps(envelope, ensure_ascii=False, **shape).encode()
    except UnicodeEncodeError:
        document = json.dumps(envelope, **shape).encode()
    click.echo(document)


def write_view(
    view: Callable[[Screen, Data], None] | str, data: Data, pagination: Data | None, invocation: Invocation
) -> None:
    """The data as a person likes to see it."""
    from lossless.cli.screen import Screen, styled

    loaded = invocation.loaded
    for notice in loaded.warnings:
        click.secho(printable(f"Warning: {notice}"), fg="yellow", err=True)
    screen = Screen(loaded.settings.timezone, invocation.rule, is_dry_run=invocation.is_dry_run)
    if invocation.is_dry_run:
        screen.line(styled("A dry run: this is what would happen.", "dim"))
    if isinstance(view, str):
        screen.line(view.format_map(data))
    else:
        view(screen, data)
    if invocation.is_dry_run:
        screen.unchanged("Leave --dry-run out to do it.")
    if pagination is not None:
        screen.footer(pagination)


@overload
def to_json(value: DataclassInstance) -> Data: ...


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


def pick_json(value: DataclassInstance, *names: str) -> Data:
    """Some fields and properties of a value under JSON's names, in this order."""
    return {camel_case(name): to_json(getattr(value, name)) for name in names}


def preview(text: str) -> str:
    """The beginning of a text on one line.

    >>> preview("two\\n  lines")
    'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"

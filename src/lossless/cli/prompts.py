"""`lcm prompts`: what a model is asked when it writes a summary, and how to change it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Group, text
from lossless.cli.drafting import prompt_dir_option
from lossless.cli.options import wrong
from lossless.cli.plain import looking
from lossless.compaction import prompts as templates
from lossless.compaction.summariser import Summariser
from lossless.revising import rewriting
from lossless.revising.prompting import prompt_of
from lossless.surgery.outcome import text_diff

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.compaction.prompts import SummaryPrompt, Template

_NAME = click.Choice(templates.NAMES)


@click.group("prompts", cls=Group)
def prompts() -> None:
    """List, show, export, compare or fill the templates of summary prompts."""


@prompts.command("list")
@prompt_dir_option
@click.pass_obj
def list_command(invocation: Invocation, prompt_dir: Path | None) -> None:
    """List the templates, and where each comes from."""
    items = [
        {"name": found.name, "origin": found.origin, "characters": len(found.text), "isOwn": _is_own(found)}
        for found in templates.templates(_folder(invocation, prompt_dir))
    ]
    invocation.emit("prompts.list", {"items": items})


@prompts.command("show")
@click.argument("name", metavar="NAME", type=_NAME)
@prompt_dir_option
@click.pass_obj
def show(invocation: Invocation, name: str, prompt_dir: Path | None) -> None:
    """Show the template NAME."""
    found = templates.show(name, _folder(invocation, prompt_dir))
    invocation.emit("prompts.show", {"name": name, "origin": found.origin, "text": found.text})


@prompts.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@click.pass_obj
def export(invocation: Invocation, folder: Path, overwrite: bool) -> None:
    """Write the built-in templates into DIR, ready to be edited; files that are there stay."""
    written = templates.export(folder, overwrite=overwrite)
    data = {"folder": str(folder.absolute()), "written": [path.name for path in written], "all": len(templates.NAMES)}
    invocation.emit("prompts.export", data)


@prompts.command("diff")
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@prompt_dir_option
@click.pass_obj
def diff(invocation: Invocation, name: str | None, prompt_dir: Path | None) -> None:
    """Show how the templates in --prompt-dir, or only NAME, differ from the built-in ones."""
    prompt_dir = _folder(invocation, prompt_dir)
    if prompt_dir is None:
        raise wrong("Name the folder of your templates with --prompt-dir.")
    names = templates.NAMES if name is None else (name,)
    pairs = [(templates.show(one), templates.show(one, prompt_dir)) for one in names]
    items = [{"name": own.name, "diff": text_diff(built_in.text, own.text, own.name)} for built_in, own in pairs]
    invocation.emit("prompts.diff", {"items": [item for item in items if item["diff"]], "folder": str(prompt_dir)})


@prompts.command("render")
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@click.option("--summary", "summary_id", metavar="ID", type=text, help="Fill it with what this summary was made of.")
@prompt_dir_option
@click.pass_obj
def render(invocation: Invocation, name: str | None, summary_id: str | None, prompt_dir: Path | None) -> None:
    """Show a prompt as a model would get it: for a summary that is there, or NAME with marks in its places.

    No model is asked.
    """
    if (name is None) == (summary_id is None):
        raise wrong("Give the name of a template or --summary.")
    if summary_id is not None:
        data = _for_summary(invocation, summary_id, prompt_dir)
    else:
        data = _with_marks(str(name), _folder(invocation, prompt_dir))
    invocation.emit("prompts.render", data)


def _is_own(template: Template) -> bool:
    return template.origin != "built-in"


def _folder(invocation: Invocation, prompt_dir: Path | None) -> Path | None:
    """The folder that is named, else the one of the settings."""
    return Summariser(invocation.loaded.settings, prompt_folder=prompt_dir).wording.folder


def _for_summary(invocation: Invocation, summary_id: str, prompt_dir: Path | None) -> dict[str, Any]:
    summariser = Summariser(invocation.loaded.settings, prompt_folder=prompt_dir)
    with looking(invocation) as archive:
        source = rewriting.source_of(archive, summariser, summary_id, {})
    filled = prompt_of(summariser, source)
    return {"name": templates.name_for(source.depth), "summaryId": summary_id} | _prompt(filled)


def _with_marks(name: str, prompt_dir: Path | None) -> dict[str, Any]:
    depth = {"condensed-d1": 1, "condensed-d2": 2, "condensed-d3": 3}.get(name, 0)
    filled = templates.render(
        "(the source)",
        1200,
        depth=depth,
        mode="aggressive" if name == "leaf-aggressive" else "normal",
        previous_context="(what came before)",
        instructions="(the operator's instructions)",
        folder=prompt_dir,
    )
    return {"name": name, "summaryId": None} | _prompt(filled)


def _prompt(filled: SummaryPrompt) -> dict[str, Any]:
    return {
        "system": filled.system,
        "user": filled.user,
        "targetTokens": filled.target_tokens,
        "temperature": filled.temperature,
    }

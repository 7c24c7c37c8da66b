"""`lcm graph`: the summaries of a conversation as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.drawing import check_place, overwrite_option, write_picture
from lossless.cli.options import bad
from lossless.cli.target import targeted
from lossless.pictures.graph import Graph, dot, svg
from lossless.store.outline import Outline

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

_LANGUAGES = {"svg": svg, "dot": dot}
_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot"}


@click.command("graph", cls=Command)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@targeted()
@click.option("--as", "language", type=click.Choice(list(_LANGUAGES)), help="What to write; else by the file's name.")
@overwrite_option
@click.pass_obj
def graph(invocation: Invocation, file: Path, target: Target, language: str | None, overwrite: bool) -> None:
    """Draw the summaries of a conversation as FILE: an SVG picture, or DOT for Graphviz; - is standard output.

    Depths are rows, the width of a box is its tokens, and what is in the context is coloured. Reads only.
    """
    language = language or _language_of(file)
    if str(file) != "-":
        check_place(file, invocation.file_path, overwrite=overwrite)
    with invocation.archive() as archive, archive.reading():
        conversation = target.need(archive)
        drawn = _graph(archive, conversation)
    text = _LANGUAGES[language](drawn)
    if str(file) == "-":
        click.echo(text.encode(), nl=False)
        return
    write_picture(file, text, invocation.file_path, overwrite=overwrite)
    invocation.emit("graph", _data(drawn, conversation.id, file, language))


def _language_of(file: Path) -> str:
    """What a file's name asks for; a name without an ending is an SVG picture's."""
    suffix = file.suffix.lower()
    if suffix and suffix not in _SUFFIXES:
        raise bad("FILE", f"{suffix} is no ending of a picture here: end it in {', '.join(_SUFFIXES)}, or give --as")
    return _SUFFIXES.get(suffix, "svg")


def _graph(archive: Archive, conversation: Conversation) -> Graph:
    outline = Outline(archive.database)
    title = f"Conversation {conversation.id}: {conversation.session_key or conversation.session_id}"
    shapes, edges = outline.shapes(conversation.id), outline.edges(conversation.id)
    return Graph(title, tuple(shapes), tuple(edges), outline.beginnings(conversation.id))


def _data(drawn: Graph, conversation_id: int, file: Path, language: str) -> dict[str, Any]:
    depths = sorted({shape.depth for shape in drawn.shapes}, reverse=True)
    rows = []
    for depth in depths:
        here = [shape for shape in drawn.shapes if shape.depth == depth]
        standing = [shape for shape in here if shape.in_context]
        rows.append(
            {
                "depth": depth,
                "summaries": len(here),
                "tokens": sum(shape.tokens for shape in here),
                "inContext": len(standing),
                "tokensInContext": sum(shape.tokens for shape in standing),
            }
        )
    return {
        "conversationId": conversation_id,
        "path": str(file),
        "language": language,
        "summaries": len(drawn.shapes),
        "edges": len(drawn.edges),
        "depths": rows,
    }

"""Messages drawn for reading: Markdown and code as people expect them, tool calls on one line until they are unfolded.

Nothing that was written is left out: HTML, entities, images and link targets are shown as they were typed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text as RichText
from rich.theme import Theme
from textual.strip import Strip

from lossless.model.messages import File, Json, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.tui.text import MAX_CHARS, NOTICE, RED, ROLES, clip_text, make_visible, one_line, plural

#: The arguments that tell most about a call, in this order.
_TELLING = ("command", "cmd", "file_path", "path", "query", "pattern", "url", "question", "prompt", "description")
#: Longer code is shown without colours; deeper nesting as it was typed.
_CODE_CHARS, _NESTING = 8_000, 15
_INDENT = 2
_CODE_THEMES = {True: "one-dark", False: "xcode"}
_CODE_GROUNDS = {"one-dark": "#1e232b", "xcode": "#f1f1ed"}
_NO_RULES = ("html_block", "html_inline", "entity", "reference", "image")
_PARSER = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable(_NO_RULES)
_STYLES = Theme.read(str(Path(__file__).with_name("markdown.ini")))


class _PlainHeading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _TableWithoutEdge(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _CodeOnPanel(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _code(str(self.text).rstrip(), self.lexer_name, self.theme)


def _code(code: str, language: str, theme: str) -> RenderableType:
    lexer = language if len(code) <= _CODE_CHARS else "text"
    return Syntax(code, lexer, theme=theme, word_wrap=True, padding=(0, 1), background_color=_CODE_GROUNDS[theme])


class ChatMarkdown(Markdown):
    """Markdown as chats show it: a line break is one, and code has colours for a dark or a light ground."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {
        "heading_open": _PlainHeading,
        "table_open": _TableWithoutEdge,
        "fence": _CodeOnPanel,
        "code_block": _CodeOnPanel,
    }

    def __init__(self, text: str, *, is_dark: bool) -> None:
        super().__init__("", code_theme=_CODE_THEMES[is_dark], hyperlinks=False)
        self.parsed = _PARSER.parse(text)
        self.is_deep = any(token.level >= _NESTING for token in self.parsed)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(_STYLES):
            yield from super().__rich_console__(console, options)


def markdown(text: str, *, is_dark: bool, limit: int = MAX_CHARS) -> RenderableType:
    """A text as Markdown, as much of it as is drawn at once."""
    shown = clip_text(text, limit)
    drawn = ChatMarkdown(shown, is_dark=is_dark)
    return RichText(shown) if drawn.is_deep else drawn


def parts_view(
    parts: Sequence[Part],
    *,
    is_dark: bool,
    is_open: bool = True,
    tools: Mapping[str, str] | None = None,
    limit: int = MAX_CHARS,
) -> RenderableType:
    """The parts of a message; without `is_open` tool calls, results and thoughts take a line each.

    `tools` has the names of tools by the ids of their calls.
    """
    drawn: list[RenderableType] = []
    for part in parts:
        if isinstance(part, Text):
            drawn += [RichText("")] if drawn and part.text.strip() else []
            drawn += [markdown(part.text.strip("\n"), is_dark=is_dark, limit=limit)] if part.text.strip() else []
        else:
            drawn += _folding(part, tools or {}, is_dark=is_dark, is_open=is_open, limit=limit)
    return Group(*drawn)


def _folding(part: Part, tools: Mapping[str, str], *, is_dark: bool, is_open: bool, limit: int) -> list[RenderableType]:
    match part:
        case ToolCall():
            arguments = part.arguments
            shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, indent=2)
            body = _code(clip_text(shown, limit), "json", _CODE_THEMES[is_dark])
            return _fold(part.name, call_summary(arguments), body, NOTICE, is_open=is_open)
        case ToolResult():
            name = part.name or tools.get(part.call_id or "", "Tool")
            lines = part.text.strip().count("\n") + 1
            head = (f"{plural(lines, 'line')} · " if lines > 1 else "") + (one_line(part.text) or "(nothing)")
            title, colour = (f"{name} failed", RED) if part.is_error else (f"{name} result", NOTICE)
            return _fold(title, head, RichText(clip_text(part.text.strip("\n"), limit)), colour, is_open=is_open)
        case Reasoning() if part.text:
            body = RichText(clip_text(part.text, limit), "italic dim")
            return _fold("Thinking", part.text, body, "dim", is_open=is_open)
        case File():
            return [RichText(f"□ {one_line(part.name or 'file')} {one_line(part.mime or '')}".rstrip(), "dim")]
        case Opaque():
            return [RichText(f"({one_line(part.type)})", "dim")]
        case _:
            return []


def _fold(title: str, summary: str, body: RenderableType, colour: str, *, is_open: bool) -> list[RenderableType]:
    head = RichText(no_wrap=True, overflow="ellipsis").append("▾ " if is_open else "▸ ", colour)
    head.append(one_line(title), f"bold {colour}")
    if is_open:
        return [head, Padding(body, (0, 0, 0, _INDENT))]
    return [head.append(f"  {one_line(summary)}", "dim")]


def call_summary(arguments: Json) -> str:
    """What a call is about, on one line.

    >>> call_summary({"limit": 5, "command": "ls -l"}), call_summary({"n": 1}), call_summary({})
    ('ls -l', '{"n": 1}', '')
    """
    if isinstance(arguments, dict):
        telling = [arguments[name] for name in _TELLING if isinstance(arguments.get(name), str)]
        if telling:
            return one_line(str(telling[0]))
    if isinstance(arguments, str):
        return one_line(arguments)
    return one_line(json.dumps(arguments, ensure_ascii=False)) if arguments else ""


def speaker(role: str, at: str) -> RichText:
    """The line above a message."""
    return RichText(no_wrap=True).append(role.capitalize(), f"bold {ROLES.get(role, '')}").append(f"  {at}", "dim")


def draw_lines(view: RenderableType, width: int) -> list[Strip]:
    """The lines of something, no wider than this, with no character that steers a terminal."""
    console = Console(
        width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    lines = console.render_lines(view, console.options.update(width=width, height=None), pad=False)
    safe = (
        [Segment(make_visible(text).replace("\n", " "), style) for text, style, control in line if not control]
        for line in lines
    )
    return [Strip(line).crop(0, width) for line in safe]

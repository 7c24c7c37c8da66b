"""The prompts a model gets when it writes a summary, built in or from the user's folder, and how long each summary
should be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from lossless.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SYSTEM_TEMPLATE = "system"
#: The templates by name, as in the override folder (`leaf.md`, …).
TEMPLATE_NAMES = (SYSTEM_TEMPLATE, "leaf", "leaf-aggressive", "condensed-d1", "condensed-d2", "condensed-d3")
PLACEHOLDERS = ("instructions", "previous_context", "source", "target_tokens")
NO_PREVIOUS_CONTEXT = "(none)"
NO_INSTRUCTIONS = "none"
MIN_LEAF_TARGET = 192
MIN_AGGRESSIVE_TARGET = 96
MIN_CONDENSED_TARGET = 512

_PLACE = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")
_FRAME = re.compile(r"<(?=/?\s*(?:previous_context|conversation_segment|conversation_to_condense)\b)", re.IGNORECASE)
_MAX_TEMPLATE_CHARS = 100_000

PromptMode = Literal["normal", "aggressive"]
_TEMPERATURES: dict[PromptMode, float] = {"normal": 0.2, "aggressive": 0.1}


@dataclass(frozen=True, slots=True)
class SummaryPrompt:
    """One request for a summary of about `target_tokens`."""

    system: str
    user: str
    target_tokens: int
    temperature: float


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt text with named places; `origin` is the file that it came from, or `built-in`."""

    name: str
    text: str
    origin: str = "built-in"


def leaf_target(input_tokens: int, leaf_target_tokens: int, mode: PromptMode = "normal") -> int:
    """How many tokens a leaf over so much input should take.

    >>> [leaf_target(20_000, 2_400, mode) for mode in ("normal", "aggressive")], leaf_target(100, 2_400)
    ([2400, 1320], 192)
    """
    if mode == "normal":
        return max(MIN_LEAF_TARGET, min(max(MIN_LEAF_TARGET, leaf_target_tokens), int(0.35 * input_tokens)))
    most = max(MIN_AGGRESSIVE_TARGET, int(0.55 * leaf_target_tokens))
    return max(MIN_AGGRESSIVE_TARGET, min(most, int(0.2 * input_tokens)))


def condensed_target(condensed_target_tokens: int) -> int:
    """How many tokens a condensed summary should take."""
    return max(MIN_CONDENSED_TARGET, condensed_target_tokens)


def template_name(depth: int, mode: PromptMode = "normal") -> str:
    """The template for a summary of a depth; condensed ones are asked for the same way twice.

    >>> template_name(0, "aggressive"), template_name(1, "aggressive"), template_name(7)
    ('leaf-aggressive', 'condensed-d1', 'condensed-d3')
    """
    if depth == 0:
        return "leaf" if mode == "normal" else "leaf-aggressive"
    return f"condensed-d{min(depth, 3)}"


def load_template(name: str, folder: Path | None = None) -> PromptTemplate:
    """A template by name: the folder's own file, else the built-in one. Raises BadInput with what is wrong."""
    built_in = _built_in(name)
    if folder is None:
        return built_in
    path = folder / f"{name}.md"
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return built_in
    except (OSError, UnicodeError) as error:
        raise BadInput(f"prompt template {str(path)!r} cannot be read: {error}") from error
    return _checked(PromptTemplate(name, text, str(path)))


def load_templates(folder: Path | None = None) -> tuple[PromptTemplate, ...]:
    """All templates in use, each from the folder or built in."""
    return tuple(load_template(name, folder) for name in TEMPLATE_NAMES)


def export_templates(folder: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write the built-in templates into a folder, ready to be edited; files that exist stay as they are.

    Returns the files that were written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in TEMPLATE_NAMES:
            path = folder / f"{name}.md"
            if overwrite or not path.exists():
                path.write_text(_built_in(name).text, "utf-8")
                written.append(path)
    except OSError as error:
        raise BadInput(f"prompt templates cannot be written to {str(folder)!r}: {error}") from error
    return tuple(written)


def render_prompt(
    source: str,
    target_tokens: int,
    *,
    depth: int = 0,
    mode: PromptMode = "normal",
    previous_context: str = "",
    instructions: str = "",
    folder: Path | None = None,
) -> SummaryPrompt:
    """The prompt for one summary. History is put inside its frame and cannot close it."""
    values = {
        "instructions": instructions.strip() or NO_INSTRUCTIONS,
        "previous_context": _framed(previous_context.strip()) or NO_PREVIOUS_CONTEXT,
        "source": _framed(source),
        "target_tokens": str(target_tokens),
    }
    system = _filled(load_template(SYSTEM_TEMPLATE, folder), values)
    user = _filled(load_template(template_name(depth, mode), folder), values)
    return SummaryPrompt(system, user, target_tokens, _TEMPERATURES[mode])


@lru_cache(maxsize=len(TEMPLATE_NAMES))
def _built_in(name: str) -> PromptTemplate:
    if name not in TEMPLATE_NAMES:
        raise BadInput(f"no prompt template {name!r}; there are {', '.join(TEMPLATE_NAMES)}")
    text = files("lossless.compaction").joinpath("templates", f"{name}.md").read_text("utf-8")
    return PromptTemplate(name, text)


def _checked(template: PromptTemplate) -> PromptTemplate:
    """The template, if it is one that can be filled."""
    if len(template.text) > _MAX_TEMPLATE_CHARS:
        raise BadInput(f"prompt template {template.origin!r} is longer than {_MAX_TEMPLATE_CHARS} characters")
    allowed = () if template.name == SYSTEM_TEMPLATE else PLACEHOLDERS
    for place in _PLACE.findall(template.text):
        if place not in allowed:
            known = ", ".join(f"{{{{{name}}}}}" for name in allowed) or "none in this file"
            raise BadInput(f"prompt template {template.origin!r} has an unknown placeholder {place!r}; known: {known}")
    if template.name != SYSTEM_TEMPLATE and "source" not in _PLACE.findall(template.text):
        raise BadInput(f"prompt template {template.origin!r} lacks the placeholder {{{{source}}}}")
    return template


def _filled(template: PromptTemplate, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place[1]], template.text).strip()


def _framed(text: str) -> str:
    """History whose tags cannot be taken for those of its frame."""
    return _FRAME.sub("‹", text)

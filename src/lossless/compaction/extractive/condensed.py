"""The extractive condensed summary: the rows of its sources, without their scaffolding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.compaction.extractive import files
from lossless.compaction.extractive.draft import EXPAND, NOTHING_ELSE, Entry, Units, compose
from lossless.compaction.extractive.split import units
from lossless.compaction.fallback import DIRECTIVE_MARKER, DIRECTIVE_OMITTED, FALLBACK_MARKER, is_directive
from lossless.compaction.source_text import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.compaction.source_text import Section

_GAP = re.compile(r" … ")
_HEADING = re.compile(r"\[(\d{4}-\d\d-\d\d[^\]\n]{0,60})\]")
_LABEL = re.compile(r"((?:user|assistant|system)(?: \([^()\n]{1,40}\))?|ran \S{1,40}|\S{1,40} (?:output|failed)): ")
_NOTE = re.compile(r"\[(?:Truncated from|Capped)[^\]\n]*\]")
_MARKERS = (DIRECTIVE_MARKER, DIRECTIVE_OMITTED, FALLBACK_MARKER)
_USER_FACTOR = 2.0
#: What tools printed, and what failed on the way, matters less than in a leaf.
_OUTPUT_FACTOR = 0.12
_FAILURE_FACTOR = 0.5
_TOPIC_CHARS = 80
_FILES_SHARE = 0.6  # characters for each token of the limit: 15 %


def condense(
    sections: Sequence[Section], target_tokens: int, *, source_tokens: int | None = None, timezone: str = "UTC"
) -> str | None:
    """A summary made of the summaries' own rows, smaller than the target and than the source.

    None when that cannot be. Times and speakers that the sources name are kept; their `Files:` and
    `Expand` lines are merged into one each.
    """
    weight = sum(section.tokens for section in sections) if source_tokens is None else source_tokens
    limit = min(target_tokens, weight) - 1
    if limit <= 0:
        return None
    entries: list[Entry] = []
    found = Units()
    touched: dict[str, str] = {}
    topics: dict[str, None] = {}
    for section in sections:
        heading = span(section, timezone)
        for row in _rows(section.text):
            if row.startswith(EXPAND.strip()):
                topics.update(dict.fromkeys(_listed(row)))
            elif row.startswith(files.PREFIX.strip()):
                for path, operation in files.parse_files_line(row):
                    files.merge(touched, path, operation)
            elif time := _HEADING.fullmatch(row):
                heading = time[1]
            else:
                entry, said, factor = _voice(row, heading)
                texts = [unit for piece in _GAP.split(said) for unit in units(piece)]
                found.add(len(entries), texts, [factor] * len(texts))
                entries.append(entry)
    files_line = files.files_line(touched, int(_FILES_SHARE * limit))
    return compose(entries, found, files_line, list(topics), limit)


def _rows(text: str) -> Iterator[str]:
    """The rows of a summary without the notes that a cut or a filter left in it."""
    for row in text.splitlines():
        bare = _NOTE.sub("", row)
        for marker in _MARKERS:
            bare = bare.replace(marker, "")
        if bare.strip():
            yield bare.strip()


def _voice(row: str, heading: str) -> tuple[Entry, str, float]:
    """Who says a row, where it names a speaker, and how much it counts. A model's own words report wishes."""
    label = _LABEL.match(row)
    if label is None:
        return Entry("", heading, "user"), row, 1.0
    said = row[label.end() :]
    if label[1].startswith("user"):
        return Entry(label[1], heading, "user"), said, _USER_FACTOR
    if label[1].endswith(" output"):
        return Entry(label[1], heading, "tool"), said, _OUTPUT_FACTOR
    return Entry(label[1], heading), said, _FAILURE_FACTOR if label[1].endswith(" failed") else 1.0


def _listed(row: str) -> list[str]:
    topics = (topic.strip(" .") for topic in row.removeprefix(EXPAND.strip()).split(","))
    known = (topic for topic in topics if topic and topic != NOTHING_ELSE and len(topic) <= _TOPIC_CHARS)
    return [topic for topic in known if not is_directive(topic)]

"""A summary as the model reads it: escaped, marked as untrusted, with the ids that lead back down."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from lossless.model.summaries import Summary

_OPENING = re.compile(r'<summary id="(sum_[0-9A-Za-z_-]{1,64})" kind="(?:leaf|condensed)" depth="')


def render_summary(summary: Summary, timezone: tzinfo | None = None) -> str:
    """The XML of a summary; times in `timezone`, without suffix, UTC by default."""
    attributes = [
        ("id", summary.id),
        ("kind", summary.kind),
        ("depth", str(summary.depth)),
        ("descendant_count", str(summary.descendant_count)),
        ("trust", "untrusted"),
    ]
    for name, moment in (("earliest_at", summary.earliest_at), ("latest_at", summary.latest_at)):
        if moment is not None:
            attributes.append((name, _local(moment, timezone)))
    opening = " ".join(f'{name}="{_attribute(value)}"' for name, value in attributes)
    lines = [f"<summary {opening}>"]
    if summary.depth > 0 and summary.source_ids:
        sources = (f'    <summary_ref id="{_attribute(source)}" />' for source in summary.source_ids)
        lines += ["  <parents>", *sources, "  </parents>"]
    lines += ["  <content>", _escaped(summary.content), "  </content>", "</summary>"]
    return "\n".join(lines)


def summary_id_of(text: str) -> str | None:
    """The id in a text that begins as a rendered summary does; whether it is one, only its whole text tells.

    >>> summary_id_of('<summary id="sum_0123456789abcdef" kind="leaf" depth="0" …')
    'sum_0123456789abcdef'
    """
    found = _OPENING.match(text)
    return found[1] if found else None


def says(text: str, content: str) -> bool:
    """Whether a rendered summary has this content, whatever is told about it beside that."""
    return text.endswith(f"\n  <content>\n{_escaped(content)}\n  </content>\n</summary>")


def _local(moment: datetime, timezone: tzinfo | None) -> str:
    return moment.astimezone(timezone or UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return _escaped(text).replace('"', "&quot;")

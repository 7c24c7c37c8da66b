from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from lossless.formats.synthetic import render_summary, rendered_summary_id
from lossless.model.context import Summary
from lossless.model.times import parse_time
from tests.formats.shapes import texts, vectors

NOON = datetime(2026, 1, 5, 12, 0, 3, 999_000, tzinfo=UTC)


def summary(
    content: str = "words",
    *,
    id: str = "sum_0123456789abcdef",
    depth: int = 0,
    earliest_at: datetime | None = None,
    latest_at: datetime | None = None,
    descendant_count: int = 0,
    source_ids: tuple[str, ...] = (),
) -> Summary:
    return Summary(
        id, 1, depth, content, 1, earliest_at, latest_at, descendant_count, 0, 0, NOON, source_ids=source_ids
    )


@pytest.mark.parametrize(("row", "expected"), vectors("summaries"))
def test_reads_as_the_reference_writes_it(row: dict[str, Any], expected: str) -> None:
    fields = row | {key: parse_time(row[key]) for key in ("earliest_at", "latest_at")}
    rendered = render_summary(summary(**fields | {"source_ids": tuple(row["source_ids"])}))
    assert rendered == expected
    assert rendered_summary_id(rendered) == row["id"]


def test_a_leaf() -> None:
    assert render_summary(summary('a < b & c > d "e"', latest_at=NOON), ZoneInfo("Asia/Tokyo")) == (
        '<summary id="sum_0123456789abcdef" kind="leaf" depth="0" descendant_count="0" trust="untrusted"'
        ' latest_at="2026-01-05T21:00:03">\n'
        "  <content>\n"
        'a &lt; b &amp; c &gt; d "e"\n'
        "  </content>\n"
        "</summary>"
    )


@given(content=texts)
def test_no_text_closes_its_frame(content: str) -> None:
    rendered = render_summary(summary(content))
    assert rendered.count("</content>") == rendered.count("</summary>") == 1
    assert rendered_summary_id(rendered) == "sum_0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["", "hello", '<summary id="">', '<summary id="sum_1" depth="0">', '\n<summary id="sum_1"']
)
def test_other_texts_are_no_summaries(text: str) -> None:
    assert rendered_summary_id(text) is None

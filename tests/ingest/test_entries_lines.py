"""Lines are read one by one, bad ones are told by their number, and half ones wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.ingest.transcripts.entries import BadLine, RecordPosition
from lossless.ingest.transcripts.records import file_state, read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.ingest.transcripts.entries import Record


def written(folder: Path, data: bytes) -> Path:
    path = folder / "lines.jsonl"
    path.write_bytes(data)
    return path


def read(path: Path, start: int = 0, number: int = 1, size: int | None = None) -> list[Record]:
    return list(read_lines(path, path.stat().st_size if size is None else size, start, number))


def test_a_line_has_a_number_and_its_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a":1}\n\n {"b":2}\r\n')
    assert read(path) == [(RecordPosition(1, 0, 8), {"a": 1}), (RecordPosition(3, 9, 19), {"b": 2})]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"a":', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":' + b"9" * 5000, "not JSON"),
        (b'{"a":1} {"b":2}', "not JSON"),
        (b"[1]", "not an object"),
        (b'"secret"', "not an object"),
        (b"42", "not an object"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b"\x00\x00", "not JSON"),
        (b'{"a":' * 200_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_object_is_told_without_its_text(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = written(tmp_path, b'{"a":1}\n' + raw + b'\n{"b":2}\n')
    first, bad, last = read(path)
    assert bad == BadLine(RecordPosition(2, 8, 9 + len(raw)), reason)
    assert (first, last) == (
        (RecordPosition(1, 0, 8), {"a": 1}),
        (RecordPosition(3, 9 + len(raw), 17 + len(raw)), {"b": 2}),
    )


def test_a_number_that_is_too_long_is_kept_as_its_digits(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"n": ' + b"9" * 10_000 + b', "m": 7}\n')
    assert read(path) == [(RecordPosition(1, 0, 10_016), {"n": "9" * 10_000, "m": 7})]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = written(tmp_path, b'\xef\xbb\xbf{"a":1}\n')
    assert read(path) == [(RecordPosition(1, 0, 11), {"a": 1})]


@pytest.mark.parametrize("half", [b'{"b":', b"{", b"42", b"[1]", b'{"b":"\xc3', b"nonsense"])
def test_a_half_line_waits(tmp_path: Path, half: bytes) -> None:
    path = written(tmp_path, b'{"a":1}\n' + half)
    assert read(path) == [(RecordPosition(1, 0, 8), {"a": 1})]


def test_a_whole_object_needs_no_line_feed_and_is_not_counted_twice(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a":1}')
    assert read(path) == [(RecordPosition(1, 0, 7), {"a": 1})]
    path.write_bytes(b'{"a":1}\r\n{"b":2}\n')
    assert read(path, 7, 2) == [(RecordPosition(2, 9, 17), {"b": 2})]


def test_what_comes_after_the_size_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a":1}\n{"b":2}\n')
    assert read(path, size=8) == [(RecordPosition(1, 0, 8), {"a": 1})]
    assert read(path, size=12) == [(RecordPosition(1, 0, 8), {"a": 1})]
    assert read(path, 16, 3) == read(path, 99, 3) == []


def test_a_file_that_has_shrunk_ends_where_it_ends(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a":1}\n')
    assert read(path, size=99) == [(RecordPosition(1, 0, 8), {"a": 1})]
    path.write_bytes(b'{"a":1}\n{"b"')
    assert read(path, size=99) == [(RecordPosition(1, 0, 8), {"a": 1})]


def test_a_line_longer_than_a_line_may_be_is_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a":"' + b"x" * 600_000 + b'"}\n{"b":2}\n')
    bad, last = read_lines(path, path.stat().st_size, longest=100)
    assert bad == BadLine(RecordPosition(1, 0, 600_009), "longer than a line may be")
    assert last == (RecordPosition(2, 600_009, 600_017), {"b": 2})


def test_a_long_line_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"a": "x" * 3_000_000}).encode() + b'\n{"b":2}\n')
    assert [record[1].keys() for record in read(path) if not isinstance(record, BadLine)] == [{"a"}, {"b"}]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"missing\.jsonl.*No such file"):
        file_state(tmp_path / "missing.jsonl")
    with pytest.raises(BadInput, match="not a file"):
        file_state(tmp_path)
    with pytest.raises(BadInput, match=r"missing\.jsonl"):
        next(read_lines(tmp_path / "missing.jsonl", 1))


GOOD = st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers() | st.none(), max_size=3)
BAD = st.sampled_from([b"", b" ", b"[1]", b"42", b'"x"', b'{"a":', b"\xff\xfe", b"nonsense"])
LINES = st.lists(GOOD.map(lambda value: json.dumps(value, ensure_ascii=False).encode()) | BAD, max_size=8)
ENDS = st.sampled_from([b"\n", b"\r\n"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines=LINES, end=ENDS, is_ended=st.booleans(), bom=st.sampled_from([b"", b"\xef\xbb\xbf"]), data=st.data())
def test_two_passes_read_what_one_pass_reads(
    tmp_path: Path, lines: list[bytes], end: bytes, is_ended: bool, bom: bytes, data: st.DataObject
) -> None:
    content = bom + end.join(lines) + (end if is_ended else b"")
    cut = data.draw(st.integers(0, len(content)))
    path = written(tmp_path, content)
    first = read(path, size=cut)
    last = _line(first[-1]) if first else RecordPosition(0, 0, 0)
    second = read(path, last.end, last.number + 1)
    once = read(path)
    assert [_said(record) for record in first + second] == [_said(record) for record in once]


def _line(record: Record) -> RecordPosition:
    return record.line if isinstance(record, BadLine) else record[0]


def _said(record: Record) -> object:
    """All but the end of a line: it may have been read before its line feed."""
    return (record.line.number, record.reason) if isinstance(record, BadLine) else (record[0].number, record[1])

"""A file that is one array is read item by item."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless.ingest.transcripts.entries import BadLine
from lossless.ingest.transcripts.records import is_array, read_items

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.ingest.transcripts.entries import Record


def written(folder: Path, data: bytes) -> Path:
    path = folder / "array.json"
    path.write_bytes(data)
    return path


def read(path: Path, start: int = 0, number: int = 1, size: int | None = None, piece: int = 1 << 20) -> list[Record]:
    return list(read_items(path, path.stat().st_size if size is None else size, start, number, piece=piece))


def values(records: list[Record]) -> list[Any]:
    return [record.reason if isinstance(record, BadLine) else record[1] for record in records]


def test_a_number_that_is_too_long_is_kept_as_its_digits(tmp_path: Path) -> None:
    data = b'[{"n": ' + b"9" * 10_000 + b', "m": 1}, {"a": -' + b"1" * 5000 + b"}]"
    assert values(read(written(tmp_path, data))) == [{"n": "9" * 10_000, "m": 1}, {"a": "-" + "1" * 5000}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'[{"a":1}]', True),
        (b'\xef\xbb\xbf\n [\n{"a":1}\n]\n', True),
        (b"[", True),
        (b"[1]", True),
        (b"[1]\n\n", True),
        (b'[1]\n{"a":1}\n', False),
        (b'{"a":[1]}', False),
        (b"", False),
        (b'["' + b"x" * 100_000 + b'"]', True),
    ],
)
def test_an_array_is_told_from_lines(tmp_path: Path, data: bytes, expected: bool) -> None:
    assert is_array(written(tmp_path, data), len(data)) is expected


def test_items_are_numbered_and_have_their_bytes(tmp_path: Path) -> None:
    data = '[ {"a":"é"},\n {"b":2} , 3 ]'.encode()
    first, second, bad = read(written(tmp_path, data))
    assert not isinstance(first, BadLine)
    assert not isinstance(second, BadLine)
    assert (first[1], second[1], second[0].number) == ({"a": "é"}, {"b": 2}, 2)
    assert json.loads(data[first[0].start : first[0].end]) == {"a": "é"}
    assert json.loads(data[second[0].start : second[0].end]) == {"b": 2}
    assert isinstance(bad, BadLine)
    assert (bad.line.number, bad.reason) == (3, "not an object")


@pytest.mark.parametrize("half", [b'{"b":', b'{"b":"x', b"", b",", b'{"b":tru', b'{"b":"\xc3'])
def test_an_item_that_is_being_written_waits(tmp_path: Path, half: bytes) -> None:
    assert values(read(written(tmp_path, b'[{"a":1},' + half))) == [{"a": 1}]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"b" 1}, {"c":' + b"1" * 99 + b"}", "not JSON, and nothing after it can be read"),
        (b'{"b":' * 200_000, "nested too deeply, and nothing after it can be read"),
        (b'{"b":"\xff"}', "not UTF-8, and nothing after it can be read"),
    ],
)
def test_a_broken_item_is_told_and_ends_the_reading(tmp_path: Path, raw: bytes, reason: str) -> None:
    assert values(read(written(tmp_path, b'[{"a":1}, ' + raw + b"]"), piece=10)) == [{"a": 1}, reason]


def test_what_stands_behind_the_array_is_told(tmp_path: Path) -> None:
    assert values(read(written(tmp_path, b'[\n{"a":1}] \n {"b":2}'))) == [{"a": 1}, "after the end of the array"]
    assert values(read(written(tmp_path, b'[\n{"a":1}] \n \n'))) == [{"a": 1}]


ITEMS = st.lists(
    st.dictionaries(st.text(max_size=4), st.text(max_size=40) | st.floats(allow_nan=False, allow_infinity=False))
    | st.integers(),
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(items=ITEMS, indent=st.sampled_from([None, 1]), is_ascii=st.booleans(), piece=st.integers(1, 60))
def test_every_item_comes_and_can_be_found_again(
    tmp_path: Path, items: list[Any], indent: int | None, is_ascii: bool, piece: int
) -> None:
    path = written(tmp_path, json.dumps(items, indent=indent, ensure_ascii=is_ascii).encode())
    found = read(path, piece=piece)
    assert values(found) == [item if isinstance(item, dict) else "not an object" for item in items]
    for record in found:
        line = record.line if isinstance(record, BadLine) else record[0]
        assert read(path, line.start, line.number, line.end, piece) == [record]

"""What is said about payloads without opening them."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import ModelTimeout
from lossless.files.explore import MAX_CHARS, SAMPLE_CHARS, exploration_prompt, sample_text, summarise
from lossless.files.media_types import image_type
from tests.files.outlines import PROGRAMS, Program
from tests.files.payloads import png

PADDING = "\n" * 2500


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_outlines(program: Program) -> None:
    name, text, imports, definitions = program
    lines = summarise(text.encode(), name, None).split("\n")
    assert lines[0] == f"Code exploration summary ({name}):"
    assert lines[1] == f"Lines: {text.count(chr(10)) + 1:,}."
    assert lines[2] == f"Imports/dependencies ({len(imports)}): {' | '.join(imports)}."
    label, _, rest = lines[3].partition(": ")
    assert label == f"Top-level definitions ({len(definitions)})"
    for found, wanted in zip(rest.split(" | "), definitions, strict=True):
        assert found.startswith(wanted)
    assert len(lines) == 4


def test_large_code_also_says_what_is_inside_of_classes() -> None:
    text = "class A:\n    def first(self):\n        pass\n    async def second(self):\n        pass\n" + "# \n" * 1000
    assert "Members (2): def first(self): | async def second(self):." in summarise(text.encode(), "a.py", None)


def test_sql() -> None:
    text = (
        "CREATE TABLE a (x);\ncreate unique index i on a (x);\nINSERT INTO a VALUES (1);\nINSERT INTO a VALUES (2);\n"
    )
    assert summarise(text.encode(), "dump.sql", None) == (
        "Code exploration summary (dump.sql):\nLines: 5.\nStatements: CREATE 2, INSERT 2."
        "\nTop-level definitions (2): CREATE TABLE a (x); | create unique index i on a (x);."
    )


def test_long_lists_are_counted() -> None:
    text = "".join(f"def f{n}():\n    pass\n" for n in range(100))
    assert "Top-level definitions (100): def f0(): | " in summarise(text.encode(), "a.py", None)
    assert " | +76 more." in summarise(text.encode(), "a.py", None)


def test_json() -> None:
    rows = [{"id": n, "name": f"row {n}", "tags": []} for n in range(500)]
    found = summarise(json.dumps(rows).encode(), "a.json", None)
    assert "Shape: array(len=500; samples: object(keys=3: id, name, tags), object" in found
    assert "Fields of items (3): id 500, name 500, tags 500." in found
    found = summarise(json.dumps({"version": 3, "rows": rows, "note": "x" * 99}).encode(), "x", "application/json")
    assert "Fields: version: 3; rows: array(len=500; " in found
    assert "note: string, 99 chars" in found


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": NaN', "nul"])
def test_json_that_is_none(text: str) -> None:
    assert "It cannot be parsed" in summarise(text.encode(), "a.json", None)


def test_json_lines() -> None:
    text = '{"a": 1}\n{"a": 2, "b": 3}\nbroken\n\n'
    assert summarise(text.encode(), "a.jsonl", None) == (
        "Structured summary (JSONL):\nRecords: 3.\nFields (2): a 2, b 1.\nLines that are no JSON: 1."
        '\nFirst record: {"a": 1}.'
    )


def test_tables() -> None:
    text = "id\tname\n" + "".join(f'{n}\t"a, {n}"\n' for n in range(400))
    found = summarise(text.encode(), "a.tsv", None)
    assert found.startswith("Structured summary (TSV):\nRows: 400.\nColumns (2): id, name.\nFirst row sample: 0\t")
    assert "Column types: id number, name text." in found
    assert summarise(b"", "a.csv", None) == "Structured summary (CSV):\nNo rows found."
    assert "Columns (2): a, b c." in summarise(b'a,"b c"\r\n1,2\r\n', "a.csv", None)


def test_yaml_and_settings() -> None:
    text = "kind: Deployment\nspec:\n  a: 1\nmetadata: # said\n" + PADDING
    found = summarise(text.encode(), "a.yml", None)
    assert "Top-level keys (2): spec, metadata." in found
    assert "Top-level values (1): kind." in found
    found = summarise(b'[tool.x]\na = 1\n[[y]]\nb = "c"\n', "a.toml", None)
    assert "Sections (2): tool.x, y." in found
    assert "Keys (2): a, b." in found


def test_markup() -> None:
    xml = "<?xml version='1.0'?><feed>" + "<entry id='1'><title>a</title></entry>" * 100 + "</feed>"
    found = summarise(xml.encode(), "a", "application/atom+xml")
    assert "Root element: feed.\nChild elements seen: entry, title." in found
    assert "Most frequent: entry 100, title 100." in found
    html = b"<html><head><title>A\n page</title></head><body><h1>First <b>one</b></h1><p>x</p></body></html>"
    found = summarise(html, "a.html", None)
    assert "Title: A page." in found
    assert "Headings (1): First one." in found


def test_prose() -> None:
    text = "# One\n\nwords here\n\nTHE SECOND PART\n\nmore\n\nThird\n=====\n"
    assert "Detected section headers (3): One | THE SECOND PART | Third." in summarise(text.encode(), "a.md", None)


def test_text_says_what_it_looks_like() -> None:
    assert "It is JSON. Shape: array(len=900" in summarise(
        json.dumps(list(range(900))).encode(), "exec.txt", "text/plain"
    )
    table = "id;name\n" + "".join(f"{n};x\n" for n in range(600))
    assert "It looks like a table (semicolon-separated). Columns (2): id, name." in summarise(
        table.encode(), "a.txt", None
    )
    diff = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n+c\n" + " context\n" * 400
    assert "It is a diff: 1 hunk, 2 lines added, 1 removed.\nFiles (1): x.py." in summarise(
        diff.encode(), "a.txt", None
    )


def test_logs() -> None:
    rows = [f"2026-01-05 09:00:{n % 60:02d},123 INFO [main] request {n} took {n}ms" for n in range(300)]
    rows[200] = "2026-01-05 09:03:20,000 ERROR [main] lost connection to db-7"
    found = summarise("\n".join(rows).encode(), "app.log", None)
    assert "It is a log.\nFrom 2026-01-05 09:00:00,123 to 2026-01-05 09:00:59,123." in found
    assert "Levels: INFO 299, ERROR 1." in found
    assert "First severe line: 2026-01-05 09:03:20,000 ERROR [main] lost connection to db-7." in found
    assert "Most frequent: 299 × INFO [main] request # took #ms." in found
    lines = "\n".join(f'{{"level":"warn","msg":"x{n}"}}' for n in range(200))
    assert "Levels: warn 200." in summarise(lines.encode(), "app.log", None)


# --- what is no text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "mime", "expected"),
    [
        (png(640, 480), None, "Image file (PNG, 33 bytes) — a, 640 × 480 pixels"),
        (b"GIF89a" + struct.pack("<HH", 7, 9), None, "Image file (GIF, 10 bytes) — a, 7 × 9 pixels"),
        (
            b"\xff\xd8\xff\xe0\x00\x04JF\xff\xc0\x00\x11\x08" + struct.pack(">HH", 10, 20) + b"\0" * 9,
            None,
            "Image file (JPEG, 26 bytes) — a, 20 × 10 pixels",
        ),
        (
            b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0" + b"\x09\0\0" + b"\x04\0\0",
            None,
            "Image file (WEBP, 30 bytes) — a, 10 × 5 pixels",
        ),
        (b'<svg xmlns="x" width="12" height="3.6">', "image/svg+xml", "Image file (SVG, 39 bytes) — a, 12 × 4 pixels"),
        (b"BM" + b"\0" * 16 + struct.pack("<ii", 4, -5), "image/bmp", "Image file (BMP, 26 bytes) — a, 4 × 5 pixels"),
        (b"\xff\xd8\xff", None, "Image file (JPEG, 3 bytes) — a"),
        (b"%PDF-1.7\0/Type /Page /Type/Pages", None, "Binary file (PDF, 32 bytes, 1 page) — a"),
        (b"PK\x03\x04\0\0word/document.xml", None, "Binary file (DOCX, 23 bytes) — a"),
        (b"\x01\x00\x02", "application/x-thing", "Binary file (X-THING, 3 bytes) — a"),
        (b"\x80\x81" * 50, None, "Binary file (unknown type, 100 bytes) — a"),
    ],
)
def test_what_is_no_text(data: bytes, mime: str | None, expected: str) -> None:
    assert summarise(data, "a", mime) == expected


def test_text_of_other_encodings_is_text() -> None:
    assert "Words: 2." in summarise("två ord".encode("utf-16"), "a", None)
    assert "Words: 2." in summarise("två ord".encode("latin-1"), "a", None)
    assert "Opening excerpt: två ord." in summarise("\ufefftvå ord".encode(), "a", None)


@given(st.binary(max_size=200))
def test_headers_of_pictures_never_break(data: bytes) -> None:
    for magic in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"BM", b"RIFF....WEBP", b"<svg ", b""):
        image_type(magic + data)
        assert summarise(magic + data, None, "image/png")


NAMES = (
    "a.json",
    "a.jsonl",
    "a.csv",
    "a.yaml",
    "a.xml",
    "a.html",
    "a.toml",
    "a.sql",
    "a.log",
    "a.md",
    "a.ts",
    "a.cpp",
    "x",
)


@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=200), times=st.sampled_from((1, 40)), name=st.sampled_from(NAMES))
def test_summaries_are_short_and_never_fail(text: str, times: int, name: str) -> None:
    found = summarise((text * times).encode("utf-8", "surrogatepass"), name, None)
    assert 0 < len(found) <= MAX_CHARS


HOSTILE = [
    "a" * 1_000_000,
    "(" * 1_000_000,
    "<a " * 300_000,
    " \t" * 500_000,
    "public static " * 70_000,
    "import " * 150_000,
    "A: " * 300_000,
    "#" * 1_000_000,
    "\n" * 1_000_000,
    "<h1>" * 200_000,
    "<svg " * 200_000,
    "int a(" * 150_000,
    "\n- a(b, c" * 100_000,
    '"' * 1_000_000,
    "AB " * 300_000,
    "[" * 1_000_000,
]


@pytest.mark.parametrize("name", [*NAMES, "a.go", "a.rs", "a.java", "a.cs", "a.rb", "a.php", "a.sh", "a.py", "a.swift"])
def test_much_of_anything_has_a_short_summary(name: str) -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    for text in HOSTILE:
        assert 0 < len(summarise(text[:250_000].encode(), name, None)) <= MAX_CHARS


# --- a model --------------------------------------------------------------------------------------


def test_a_model_is_asked_about_prose_only() -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "  It is about ferries.\n"

    prose = "word " * 5000
    assert summarise(prose.encode(), "a.txt", "text/plain", ask=ask) == "It is about ferries."
    assert summarise(b'{"a": 1}', "a.json", None, ask=ask).startswith("Structured summary")
    assert summarise(b"def f(): pass", "a.py", None, ask=ask).startswith("Code exploration summary")
    assert len(asked) == 1
    assert len(asked[0]) < 3 * SAMPLE_CHARS + 1500


def test_without_an_answer_the_summary_is_made_here() -> None:
    def fails(_: str) -> str:
        raise ModelTimeout("no answer in time")

    assert summarise(b"some words", "a.txt", None, ask=fails).startswith("Text exploration summary")
    assert summarise(b"some words", "a.txt", None, ask=lambda _: "  ").startswith("Text exploration summary")


def test_samples_are_the_beginning_the_middle_and_the_end() -> None:
    text = "a" * 5000 + "b" * 5000 + "c" * 5000
    assert [(place, set(sample), len(sample)) for place, sample in sample_text(text)] == [
        ("beginning", {"a"}, SAMPLE_CHARS),
        ("middle", {"b"}, SAMPLE_CHARS),
        ("end", {"c"}, SAMPLE_CHARS),
    ]
    assert sample_text("short") == [("whole", "short")]
    assert "200 to 300 words" in exploration_prompt("short", "a.txt", None)

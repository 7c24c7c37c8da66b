"""Pages for people: everything can be read, and nothing that was said can do anything."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.store.archive import Archive
from lossless.testing.strategies import hostile_text
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.pages import ReadableMessage, _fenced, _quoted, export_pages, file_name, render_message

from . import claws
from .claws import real
from .moves import bring, vault

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.transfer.pages import PageFormat, PagesReport

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x00\x1b[31m\u202e```\n# not a heading"
SESSION = lossless.Session(key='agent:"><script>x</script>../../etc', id="run")
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "td", "th", "p", "a", "bdi", "details",
    "summary", "pre", "article", "header",
}  # fmt: skip


class Tags(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    return parser


def export(path: Path, folder: Path, kind: PageFormat, *, overwrite: bool = False) -> PagesReport:
    with Archive.open(path, read_only=True) as archive:
        return export_pages(archive, vault(path), folder, kind, TransferOptions(overwrite=overwrite))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "lcm.db"
    call: dict[str, Any] = {
        "id": "c1",
        "type": "function",
        "function": {"name": "<b>run</b>", "arguments": json.dumps({"x": HOSTILE})},
    }
    with lossless.open(path, background=False) as engine:
        engine.append(
            SESSION,
            [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": None, "tool_calls": [call]}],
        )
        engine.append(SESSION, [{"role": "tool", "tool_call_id": "c1", "content": HOSTILE}])
    return path


def test_pages_hold_text_only(archive: Path, tmp_path: Path) -> None:
    report = export(archive, tmp_path / "out", "html")
    assert (report.conversations, report.messages) == (1, 3)
    pages = sorted((tmp_path / "out").iterdir())
    assert [page.name for page in pages] == ["0001-agent-script-x-script-etc.html", "index.html"]
    for page in pages:
        text = page.read_text()
        found = tags(text)
        assert found.tags <= ALLOWED
        assert not {name for name in found.attributes if name.startswith("on") or name == "src"}
        assert "\x00" not in text
        assert "\x1b" not in text
        assert "default-src 'none'" in text
    assert "<script>alert(1)</script>" in tags(pages[0].read_text()).text


@given(text=hostile_text(), name=st.text(max_size=20))
def test_whatever_is_said_is_text_in_the_page(text: str, name: str) -> None:
    said = ReadableMessage(1, 1, "user", "now", text, (text,), ((name, text),), (text,), text)
    found = tags(render_message("html", said))
    assert found.tags <= ALLOWED
    assert found.attributes <= {"class", "id", "open"}


@given(text=hostile_text())
def test_a_fence_holds(text: str) -> None:
    first, *inside, last = _fenced(text).split("\n")
    assert first == last
    assert all(first not in line for line in inside)
    assert all(line.startswith(">") for line in _quoted(text).split("\n") if line)


@given(name=st.text(max_size=80))
def test_names_are_plain(name: str) -> None:
    found = file_name(7, name, "md")
    assert found.startswith("0007")
    assert all(character.isascii() and (character.isalnum() or character in "-.") for character in found)


def test_markdown_has_summaries_and_messages(tmp_path: Path) -> None:
    target = tmp_path / "here" / "lcm.db"
    bring("claw", real(tmp_path / "lcm.db", [claws.tree_of_24()]), target)
    report = export(target, tmp_path / "out", "markdown")
    text = (tmp_path / "out" / report.files[0]).read_text()
    assert "### sum_top (condensed, depth 1, 3 tokens)" in text
    assert "> line 0" in text
    assert "Called read:" in text


def test_a_page_has_summaries_and_messages_in_light_and_dark(tmp_path: Path) -> None:
    target = tmp_path / "here" / "lcm.db"
    bring("claw", real(tmp_path / "lcm.db", [claws.tree_of_24()]), target)
    report = export(target, tmp_path / "out", "html")
    text = (tmp_path / "out" / report.files[0]).read_text()
    assert text.index("<h2>Summaries</h2>") < text.index("sum_top: condensed, depth 1, 3 tokens")
    assert text.index("<h2>Messages</h2>") < text.index("<article")
    assert ":root{color-scheme:light dark}" in text, "on the root, so that the background follows, too"


def test_lines_are_messages_as_they_came(archive: Path, tmp_path: Path) -> None:
    report = export(archive, tmp_path / "out", "jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out" / report.files[0]).read_bytes().splitlines()]
    assert lines[0]["message"] == {"role": "user", "content": HOSTILE}
    assert lines[1]["message"]["tool_calls"][0]["id"] == "c1"
    with lossless.open(tmp_path / "again.db", background=False) as engine:
        assert engine.append(SESSION, [line["message"] for line in lines]).stored == 3


def test_messages_of_others_keep_their_calls(tmp_path: Path) -> None:
    target = tmp_path / "here" / "lcm.db"
    bring("claw", real(tmp_path / "lcm.db", [claws.tree_of_24()]), target)
    report = export(target, tmp_path / "out", "jsonl")
    lines = [json.loads(line)["message"] for line in (tmp_path / "out" / report.files[0]).read_bytes().splitlines()]
    assert any(block.get("name") == "read" for block in lines[3]["content"])


def test_a_folder_with_things_in_it(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        export(archive, tmp_path / "out", "html")
    export(archive, tmp_path / "out", "html", overwrite=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"

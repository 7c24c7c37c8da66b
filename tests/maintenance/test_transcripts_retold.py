"""Other words under a stored id are words of its row: its newest, or, as a host's reduction, kept beside them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import SESSION, context, open_engine, problems
from tests.maintenance.transcript_files import TranscriptFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import lossless

LONG = "The proxy of the staging cluster listens on port 8443 and forwards to the gateway. " * 6
ASKED = "which port is it?"
SPOKEN = "Die Tür über dem Café ist größer"
INFO = 'Conversation info (untrusted metadata):\n```json\n{"message_id": "7", "sender": "Ann"}\n```\n\n'
PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 40

#: Name: what was stored, and what its host has made of it under its id, with a mark that says so.
REDUCED = {
    "masked": ("the key is sk-abc123def456 use it", "the key is [REDACTED] use it"),
    "partly masked": ("the key is sk-abc123def456 use it", "the key is sk-a***456 use it"),
    "cut": (LONG, LONG[:100] + "…"),
    "cut, with a notice": (LONG, LONG[:100] + "\n… 240 more characters truncated"),
    "cut, with a long notice": (LONG, LONG[:100] + "\n\n⚠️ [Content truncated: " + "too large for the model " * 8 + "]"),
    "cut in the middle": (LONG, LONG[:100] + "\n\n[... 240 characters omitted ...]\n\n" + LONG[-80:]),
    "cleared": (LONG, "[Old tool result content cleared]"),
    "bytes put away": (f"see {PICTURE}", "see media://inbound/a.png"),
}
#: Name: what was stored, and what stands under its id later, with no such mark.
REVISED = {
    "what was masked": ("the key is [REDACTED]", "the key is here"),
    "what was cut": ("the key is he…", "the key is here"),
    "another sender's label": (INFO + ASKED, INFO.replace("Ann", "Ann B") + ASKED),
    "framed": (ASKED, INFO + ASKED),
    "no frame any more": (INFO + ASKED, ASKED),
    "another frame": (INFO + ASKED, f"{ASKED}\n<reminder>\nIt is late.\n</reminder>"),
    "a time": (ASKED, f"[Sat 2026-01-01 10:00 UTC] {ASKED}"),
    "a host's event": (ASKED, f"System: [2026-01-01 10:00:00 UTC] Node connected: mac\n\n{ASKED}"),
    "a picture's header": (ASKED, f"[media attached: /a.png (image/png)]\nTo send an image back, say so.\n{ASKED}"),
    "a context": (ASKED, f"<memories>\n1. port is 8443\n</memories>\n\n{ASKED}"),
    "decomposed": (SPOKEN, unicodedata.normalize("NFD", SPOKEN)),
    "composed": (unicodedata.normalize("NFD", SPOKEN), SPOKEN),
    "line ends": ("one\ntwo", "one\r\ntwo\r\n"),
    "unseen characters": ("It lis\u200btens\ufeff", "It listens"),
    "colours": ("\x1b[31mred\x1b[0m text", "red text"),
    "entities": ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
    "another list": ("* one thing\n* two things", "1. one thing\n2. two things"),
    "no markup": ("**It** is `8443`.", "It is 8443."),
    "a word": ("It listens on 8443.", "It listens on 9000."),
    "a word more": ("Do it now.", "Do not do it now."),
    "others": (ASKED, "forget it, thanks"),
    "a shorter one": ("Deploy everything now to staging please", "Deploy everything now\nand clear the cache"),
    "one that speaks of cuts": ("Show me the whole log of today", "Show me (not truncated) what came yesterday"),
    "another answer to a list": ("1) yes", "2) yes"),
    "a path": ("see a.txt", "see /etc/hosts/b.txt"),
    "other words in another frame": (INFO + ASKED, INFO.replace("Ann", "Bo") + "which host is it?"),
}


class Told:
    """A transcript that is written anew with other words in its third message."""

    def __init__(self, path: Path, kind: str) -> None:
        self.file, self._kind = TranscriptFile(path, None), kind

    def write(self, third: str, more: Sequence[str] = ()) -> Path:
        self.file.path.write_text("")
        if self._kind == "openclaw":
            self.file.write({"type": "session", "version": 3, "id": "run-1"})
        for n, text in enumerate(("first", "second", third, "fourth", "fifth", *more)):
            self._say(n, text)
        return self.file.path

    def _say(self, n: int, text: str) -> None:
        role = "assistant" if n % 2 else "user"
        message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}]}
        if self._kind == "openclaw":
            parent = f"e{n - 1}" if n else None
            self.file.write({"type": "message", "id": f"e{n}", "parentId": parent, "message": message})
            return
        ids = {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "run-1"}
        self.file.write({"type": role, "timestamp": f"2026-01-01T00:00:0{n}Z", "message": message, **ids})


def words(engine: lossless.Engine) -> list[str]:
    """All that is stored, in the order in which it came."""
    return [row.message.content for row in engine.archive.messages.in_order(1, limit=100)]


@pytest.fixture(params=["openclaw", "claude-code"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    return Told(tmp_path / "run-1.jsonl", request.param)


def others(engine: lossless.Engine, row: int) -> list[tuple[str, str]]:
    """The wordings of a row that are not its current one, and what each is."""
    return [(version.kind, version.message.content) for version in engine.archive.versions.of(row)]


@pytest.mark.parametrize("name", REDUCED)
def test_what_a_host_has_reduced_is_kept_beside_the_words_of_its_row(tmp_path: Path, told: Told, name: str) -> None:
    before, after = REDUCED[name]
    said = ["first", "second", before, "fourth", "fifth"]
    for third in (before, after, after):
        with open_engine(tmp_path / "lcm.db") as engine:
            report = engine.bootstrap(SESSION, told.write(third))
            assert (words(engine), context(engine), report.revised) == (said, said, 0)
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, told.write(after, ["sixth"]))
        moved = told.file.path.rename(tmp_path / "moved.jsonl")
        engine.bootstrap(SESSION, moved)
        assert (words(engine), context(engine)) == ([*said, "sixth"], [*said, "sixth"])
        assert others(engine, 3) == [("lesser", after)]
        assert problems(engine) == []


@pytest.mark.parametrize("name", REVISED)
def test_a_row_takes_the_newest_words_and_old_ones_do_not_come_back(tmp_path: Path, told: Told, name: str) -> None:
    before, after = REVISED[name]
    revised = []
    with open_engine(tmp_path / "lcm.db") as engine:
        for n, third in enumerate((before, after, after, before, after)):
            revised.append(engine.bootstrap(SESSION, told.write(third)).revised)
            said = ["first", "second", after if n else before, "fourth", "fifth"]
            assert (words(engine), context(engine)) == (said, said)
        moved = told.write(after, ["sixth"]).rename(tmp_path / "moved.jsonl")
        assert engine.bootstrap(SESSION, moved).stored == 1
        assert words(engine) == context(engine) == ["first", "second", after, "fourth", "fifth", "sixth"]
        assert revised == [0, 1, 0, 0, 0]
        assert others(engine, 3) == [("earlier", before)]
        assert problems(engine) == []


def test_what_is_edited_or_grows_again_and_again_keeps_its_place(tmp_path: Path, told: Told) -> None:
    texts = ["It", "It listens", "It listens on 8443.", "Something else", "A third thing"]
    with open_engine(tmp_path / "lcm.db") as engine:
        for third in texts:
            engine.bootstrap(SESSION, told.write(third))
            assert words(engine) == context(engine) == ["first", "second", third, "fourth", "fifth"]
        assert sorted(others(engine, 3)) == sorted(("earlier", text) for text in texts[:-1])
        assert problems(engine) == []


@pytest.mark.parametrize("more", ["\n```py\nx = 1\n```", " [1, 2, 3]", ' {"port": 8443}', " <b>8443</b>", "\nport:"])
@pytest.mark.parametrize("begun", ["It is", ""])
def test_an_answer_that_goes_on_with_code_or_brackets_has_grown(tmp_path: Path, begun: str, more: str) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say("question", "q")
    message = {"role": "assistant", "content": [{"type": "text", "text": begun}]}
    record = {"type": "message", "id": "a", "parentId": "q", "message": message}
    with open_engine(tmp_path / "lcm.db") as engine:
        shown = []
        for text in (begun, begun + more, cut := f"{begun}{more[:-1]} [truncated]"):
            file.write(record | {"message": message | {"content": [{"type": "text", "text": text}]}})
            engine.bootstrap(SESSION, file.path)
            shown.append(words(engine)[-1])
        assert words(engine) == context(engine) == ["question", begun + more]
        assert sorted(others(engine, 2)) == [("earlier", shown[0]), ("lesser", cut)]
        assert problems(engine) == []


def test_an_edit_in_a_file_that_has_moved_takes_its_place(tmp_path: Path, told: Told) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, told.write("third"))
        moved = told.write("edited").rename(tmp_path / "moved.jsonl")
        for _ in range(2):
            engine.bootstrap(SESSION, moved)
            assert words(engine) == context(engine) == ["first", "second", "edited", "fourth", "fifth"]
        assert others(engine, 3) == [("earlier", "third")]
        assert problems(engine) == []


def test_a_call_whose_input_came_later_is_stored_with_it(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say_all("question")
    call = {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}}
    record = {"type": "message", "id": "c", "parentId": file.leaf, "message": {"role": "assistant", "content": [call]}}
    file.write(record)
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file.path)
        file.path.write_text(file.path.read_text().replace('"arguments": {}', '"arguments": {"path": "a.txt"}'))
        for _ in range(2):
            file.touch()
            engine.bootstrap(SESSION, file.path)
        rows = list(engine.archive.messages.in_order(1, limit=10))
        assert [part.input for row in rows for part in row.message.tool_calls] == [{"path": "a.txt"}]
        earlier = engine.archive.versions.of(2)
        assert [part.input for version in earlier for part in version.message.tool_calls] == [{}]
        assert len(context(engine)) == 2
        assert problems(engine) == []

"""A conversation that reads like a real one, with its tools' outputs: a team brings ferry tickets to the islands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from lossless import formats
from lossless.testing.conversations import AgentMessage, assistant_message, dice, pick, result_message, text_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Roll = Callable[[], float]

#: A line of a scene: its kind and its text. A scene: when it is played, and its lines.
_Line: TypeAlias = tuple[str, str]
_Scene: TypeAlias = "tuple[datetime | None, list[_Line]]"

BOATS = ("Sjöbris", "Alvhild", "Måsen")
FILES = (
    "booking/seats.py", "booking/changes.py", "payments/refund.py", "payments/reports.py", "pier/gateway.py",
    "pier/sync.py", "worker/loop.py", "worker/mails.py", "api/errors.py",
)  # fmt: skip
NAMES = ("find", "load", "check", "close", "merge", "notify", "price", "expire", "render", "publish")
NOUNS = ("booking", "refund", "voucher", "boarding", "scan", "transfer")
_HTTP_CLIENT = "httpx"
_PACKAGES = (_HTTP_CLIENT, "uvicorn", "psycopg", "pydantic", "structlog", "reportlab", "cbor2", "pyserial")
_DEPARTURES = ("Fri 18:40", "Fri 20:15", "Fri 21:00", "Sun 07:10")
_REASONS = (
    "finished by another worker", "already closed", "retry in 2 s", "mail server busy",
    "slow answer from harbour office",
)  # fmt: skip


def number(roll: Roll, low: int, high: int) -> int:
    """A number from `low` to `high`, both possible."""
    return low + int(roll() * (high - low + 1))


def hex_digits(roll: Roll, count: int) -> str:
    """A made-up commit id or checksum."""
    return "".join(pick(roll, "0123456789abcdef") for _ in range(count))


def _lines(count: int, line: Callable[[int], str]) -> str:
    return "\n".join(line(index) for index in range(count))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def gateway_log(roll: Roll) -> str:
    return _lines(
        46,
        lambda index: (
            f"2026-03-13T08:{index // 4:02d}:{index % 4 * 15 + number(roll, 0, 14):02d}Z pier-gateway[811]:"
            f" handheld-{number(roll, 1, 12):02d} sync ok,"
            f" {number(roll, 0, 30)} scans, {number(roll, 20, 80)} ms"
        ),
    )


def payment_log(roll: Roll) -> str:
    return _lines(
        36,
        lambda index: (
            f"2026-04-09T15:{index // 3:02d}:{index % 3 * 20 + number(roll, 0, 19):02d}Z worker[402]:"
            f" POST /v2/captures 201 attempt=1 order={number(roll, 88_000, 88_190)}"
            f" {number(roll, 150, 390)} ms"
        ),
    )


def app_log(roll: Roll) -> str:
    return _lines(
        number(roll, 34, 40),
        lambda index: (
            f"[{86_400 + index * 170 + number(roll, 0, 160)}.{number(roll, 100, 999)}]"
            f" WARNING worker[{number(roll, 400, 409)}]"
            f" job={number(roll, 10_000, 99_999)} kind={pick(roll, NOUNS)}: {pick(roll, _REASONS)}"
        ),
    )


def load_test(roll: Roll) -> str:
    rows = [(1000 + 200 * step, 90 + step * step * 6 + number(roll, 0, 9), f"0.0{step // 6}") for step in range(11)]
    return _table(("bookings/min", "p95 ms", "errors %"), rows)


def restore_log(roll: Roll) -> str:
    return _lines(
        40,
        lambda index: (
            f"P00 INFO: restore file base/16384/{number(roll, 16_000, 29_999)}"
            f" ({number(roll, 1, 900)}MB, {index * 5 // 2}%) checksum {hex_digits(roll, 12)}"
        ),
    )


def pytest_failure(roll: Roll) -> str:
    name, wait = pick(roll, NAMES), number(roll, 60, 400)
    return (
        f"...F{'.' * number(roll, 3, 40)}\n"
        "=================================== FAILURES ===================================\n"
        f"____________________ test_{name}_waits_for_the_job ____________________\n\n"
        f"    def test_{name}_waits_for_the_job(db, worker):\n"
        f"        job = worker.later({name!r})\n"
        f"        sleep(0.{wait:03d})\n"
        '>       assert db.one("SELECT done FROM jobs WHERE id = %s", job.id)\n'
        "E       assert False\n\n"
        f"tests/{pick(roll, ('booking', 'worker', 'pier'))}/waits.py:{number(roll, 20, 90)}: AssertionError\n"
        f"1 failed, {number(roll, 20, 80)} passed in {number(roll, 4, 40)}.{number(roll, 10, 99)}s"
    )


def diff(roll: Roll) -> str:
    return "\n".join(_hunk(roll) for _ in range(number(roll, 3, 6)))


def _hunk(roll: Roll) -> str:
    file, noun, verb = pick(roll, FILES), pick(roll, NOUNS), pick(roll, NAMES)
    line = number(roll, 20, 200)
    return (
        f"diff --git a/{file} b/{file}\nindex {hex_digits(roll, 7)}..{hex_digits(roll, 7)} 100644\n"
        f"--- a/{file}\n+++ b/{file}\n@@ -{line},7 +{line},13 @@\n"
        f" def {verb}_all(db, sailing):\n"
        f"-    return db.all({noun.upper()}S, sailing.id)\n"
        f"+    result = []\n"
        f"+    for id in db.all({noun.upper()}_IDS, sailing.id):\n"
        f"+        {noun} = db.one({noun.upper()}, id)\n"
        f"+        if {noun}.seats > {number(roll, 1, 6)}:\n"
        f"+            result.append(process_data({noun}))\n"
        f"+    return result\n \n \n"
        f" def {pick(roll, NAMES)}_one(db, id):"
    )


def slow_queries(roll: Roll) -> str:
    columns = ("sailing_id", "customer_id", "state", "pier", "created_at", "order_id", "id", "day")
    rows = [
        (number(roll, 4, 2_000), number(roll, 2, 900), f"SELECT … FROM {noun}s WHERE {column} = $1")
        for column in columns
        for noun in (pick(roll, NOUNS), pick(roll, NOUNS))
    ]
    rows.sort(key=lambda row: -row[0] * row[1])
    return _table(("calls", "ms", "query"), rows)


def deploy_log(roll: Roll) -> str:
    steps = ("build api", "build worker", "build gateway", "push images", "migrate", "restart api", "restart worker")
    done = "\n".join(f"[{step}] done in {number(roll, 1, 90)}.{number(roll, 0, 9)}s" for step in steps)
    smoke = ("timetable", "hold", "pay (stub)", "ticket", "scan", "refund", "boarding list")
    return done + "\n" + "\n".join(f"smoke: {name} ok ({number(roll, 30, 900)} ms)" for name in smoke)


def outdated(roll: Roll) -> str:
    rows = []
    for package in _PACKAGES:
        major, minor, patch = number(roll, 0, 3), number(roll, 0, 30), number(roll, 0, 9)
        newer = f"{major + 1}.0.0" if package == _HTTP_CLIENT else f"{major}.{minor}.{patch + number(roll, 1, 3)}"
        rows.append((package, f"{major}.{minor}.{patch}", newer))
    return _table(("package", "version", "latest"), rows) + "\nNo known vulnerabilities found"


def outline(roll: Roll) -> str:
    start, lines = 1, []
    while start < 600:
        length = number(roll, 8, 40)
        lines.append(f"{start:>5}  def {pick(roll, NAMES)}_{pick(roll, NOUNS)}  ({length} lines)")
        start += length + 2
    return "\n".join(lines)


def weekly(roll: Roll) -> str:
    rows = [
        (day, number(roll, 900, 2_600), number(roll, 3, 40), number(roll, 0, 9), f"{number(roll, 90, 420)} ms")
        for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    ]
    return _table(("day", "bookings", "refunds", "refused scans", "p95"), rows)


def sql_rows(roll: Roll) -> str:
    rows = [
        (
            number(roll, 20_000, 80_000),
            f"-{number(roll, 1, 30)}.{number(roll, 0, 9)}0",
            "office",
            f"0{number(roll, 1, 9)}:1{index}",
        )
        for index in range(8)
    ]
    return _table(("id", "amount", "source", "created_at"), rows) + "\n(8 rows)"


def sailings(roll: Roll) -> str:
    rows = [
        (
            f"S-{number(roll, 1_000, 9_999)}",
            pick(roll, _DEPARTURES),
            f"{number(roll, 31, 60)} of {number(roll, 70, 120)}",
        )
        for _ in range(number(roll, 16, 34))
    ]
    return _table(("sailing", "departs", "no-shows"), rows)


def scan_compare(roll: Roll) -> str:
    rows = [
        (f"handheld-{device:02d}", count, count, f"{number(roll, 1, 90)} s")
        for device, count in ((device, number(roll, 10, 220)) for device in range(1, 13))
    ]
    return _table(("device", "on device", "in database", "latest delay"), rows) + "\nmissing: 0"


_LOGS = (gateway_log, payment_log, app_log, restore_log, deploy_log)
_TABLES = (load_test, slow_queries, outdated, outline, weekly, sql_rows, sailings, scan_compare)
OUTPUTS: dict[str, Callable[[Roll], str]] = {
    output.__name__: output for output in (*_LOGS, *_TABLES, pytest_failure, diff)
}


SAMPLE_COUNT = 400
_ROUTINES_BETWEEN = 2
_LINE = re.compile(r"(user|assistant|call \w+|result!?|fact)> ?(.*)")
_CLOSINGS = ("Noted.", "All right.", "👍", "Understood.")
_SLOT = re.compile("«(\\w+)»")
_CHOICES: dict[str, tuple[str, ...]] = {
    "person": ("Jonas", "Priya", "Emeka", "Lucia"),
    "branch": ("group-names", "faster-sync", "refund-mails", "night-boat", "pier-health", "season-pass", "tidy-worker"),
    "test": ("test_changes", "test_sync", "test_mails", "test_expiry", "test_lists"),
    "module": ("booking", "payments", "pier", "worker", "api"),
    "file": FILES,
    "noun": NOUNS,
    "verb": NAMES,
    "boat": BOATS,
    "city": ("Gdańsk", "Porto", "Utrecht", "Bergen", "Trieste", "Tampere"),
    "topic": ("the seat holds", "daylight saving", "the key rotation", "partner access", "the way back", "the printer"),
}
_RANGES = {
    "times": (60, 200), "few": (3, 9), "small": (12, 98), "large": (310, 780), "percent": (11, 29),
    "lines": (610, 990), "ticket": (500, 980), "pier": (1, 4), "age": (8, 15), "order": (60_000, 79_999),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was said: a question for it, words that answer it, and the message that has them."""

    question: str
    answer: str
    #: Its place in the sample, from 1.
    seq: int


def _scenes(file: str) -> list[_Scene]:
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    return [_scene(block) for block in text.split("=== ")[1:]]


def _scene(block: str) -> _Scene:
    head, _, body = block.partition("\n")
    _, _, at = head.partition(" | ")
    lines: list[_Line] = []
    for row in body.rstrip("\n").split("\n"):
        if match := _LINE.fullmatch(row):
            lines.append((match[1], match[2]))
        else:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}\n{row}")
    return datetime.fromisoformat(at).replace(tzinfo=UTC) if at else None, lines


def _filler(roll: Roll) -> Callable[[str], str]:
    """Fills the «slots» of one scene: the same name gives the same words."""

    def fill(text: str) -> str:
        return _SLOT.sub(lambda match: fill(OUTPUTS[match[1]](roll)) if match[1] in OUTPUTS else word(match[1]), text)

    @cache
    def word(name: str) -> str:
        if name in _CHOICES:
            return pick(roll, _CHOICES[name])
        if name in _RANGES:
            return str(number(roll, *_RANGES[name]))
        if name == "hash":
            return hex_digits(roll, 7)
        if name == "price":
            return f"{number(roll, 17, 29)}.{number(roll, 1, 9)}0"
        if name == "Noun":
            return word("noun").capitalize()
        raise KeyError(name)

    return fill


class _ScenePlayer:
    """Turns scenes into messages, one after the other, and notes where each fact was said."""

    def __init__(self) -> None:
        self.roll = dice(1854)
        self.now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        self.seq = self.calls = 0
        self.facts: list[Fact] = []

    def play(self, scene: _Scene) -> Iterator[AgentMessage]:
        """The messages of one scene; an assistant's text and the calls after it are one message."""
        fill, message, open_calls = _filler(self.roll), AgentMessage(), list[AgentMessage]()
        at, lines = scene
        self.now = at or self._next_working_hour()
        for kind, text in lines:
            if kind == "fact":
                question, _, answer = text.rpartition(" = ")
                self.facts.append(Fact(question, answer, self.seq + 1))
                continue
            text = fill(text)
            if kind.startswith("call "):
                if message.get("role") != "assistant":
                    yield from self._out(message)
                    message = self._assistant()
                self.calls += 1
                call = {
                    "type": "toolCall",
                    "id": f"call_{hex_digits(self.roll, 16)}{self.calls:04d}",
                    "name": kind.removeprefix("call "),
                    "arguments": json.loads(text),
                }
                message["content"].append(call)
                message["stopReason"] = "toolUse"
                open_calls.append(call)
                continue
            yield from self._out(message)
            if kind == "user":
                message = {"role": "user", "content": [text_block(text)], "timestamp": self._later(30, 240)}
            elif kind == "assistant":
                message = self._assistant(text)
            else:
                message = self._result(open_calls.pop(0), text, is_error=kind == "result!")
        yield from self._out(message)
        if message["role"] == "user":
            yield from self._out(self._assistant(pick(self.roll, _CLOSINGS)))

    def _out(self, message: AgentMessage) -> Iterator[AgentMessage]:
        if message:
            self.seq += 1
            yield message

    def _assistant(self, text: str = "") -> AgentMessage:
        return assistant_message([text_block(text)] if text else [], "stop", self._later(4, 40))

    def _result(self, call: AgentMessage, text: str, is_error: bool) -> AgentMessage:
        return result_message(call, text, int(is_error), number(self.roll, 20, 9000), is_error, self._later(1, 20))

    def _later(self, low: int, high: int) -> int:
        self.now += timedelta(seconds=number(self.roll, low, high))
        return round(self.now.timestamp() * 1000)

    def _next_working_hour(self) -> datetime:
        """Half an hour to four hours on; after hours, the next morning that is no weekend."""
        at = self.now + timedelta(minutes=number(self.roll, 35, 240))
        if at.hour >= 18 or at.hour < 8:
            at = (at if at.hour < 8 else at + timedelta(days=1)).replace(hour=8, minute=number(self.roll, 5, 55))
        while at.weekday() >= 5:
            at += timedelta(days=1)
        return at


def _all_messages(stage: _ScenePlayer) -> Iterator[AgentMessage]:
    scenes, routines = _scenes("ferry.txt"), _scenes("ferry_routine.txt")
    played = 0
    for scene, following in zip(scenes, (*scenes[1:], (None, [])), strict=True):
        yield from stage.play(scene)
        for _ in range(_ROUTINES_BETWEEN):
            if following[0] is None or stage.now + timedelta(hours=8) < following[0]:
                yield from stage.play(_nth_routine(routines, played))
                played += 1
    while True:
        yield from stage.play(_nth_routine(routines, played))
        played += 1


def _nth_routine(routines: list[_Scene], place: int) -> _Scene:
    """Every routine once before any comes again, in another order each round."""
    round_, index = divmod(place, len(routines))
    return routines[(index * (5, 3, 7, 11)[round_ % 4] + round_) % len(routines)]


def sample_conversation(count: int = SAMPLE_COUNT) -> Iterator[AgentMessage]:
    """The first `count` messages of the sample: a shorter one is always the beginning of a longer one."""
    return islice(_all_messages(_ScenePlayer()), count)


@cache
def _planted() -> tuple[Fact, ...]:
    stage = _ScenePlayer()
    facts = sum(kind == "fact" for _, lines in _scenes("ferry.txt") for kind, _ in lines)
    for _ in _all_messages(stage):
        if len(stage.facts) == facts:
            break
    return tuple(stage.facts)


#: The facts of the sample, in the order they were said; all of them within its first SAMPLE_COUNT messages.
PLANTED: tuple[Fact, ...] = _planted()


def openai_chat(messages: Iterable[AgentMessage]) -> Iterator[dict[str, object]]:
    """Agent messages in the shape of OpenAI's chat API, which has no place for thinking: it is left out."""
    for message in messages:
        yield from formats.encode([formats.decode(message, "openclaw")], "openai-chat")

"""The model: a provider on this machine that plays an agent by a script, and notes what each request shows it."""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from bench.hosts import wire
from bench.hosts.script import MARK, QUESTION, SECRET_PATTERN, Step, Turn
from bench.hosts.tokens import EACH, count
from bench.hosts.wire import Prompt, Reply, Use

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

#: What stands in a prompt for history that it leaves out, and what brings some of it back unasked.
SUMMARY = re.compile(r'<summary id="(sum_[0-9A-Za-z_-]+)"|<(lossless_reference) ')
EVIDENCE = re.compile(r"<lossless_claw_prompt_recall>\n|<lossless_evidence trust=")
#: The instructions to the model name these marks, too, but without attributes.
OURS = re.compile(
    r"<(summary|lossless_reference|lossless_evidence) .*?</\1>"
    r"|<lossless_claw_prompt_recall>\n.*?</lossless_claw_prompt_recall>",
    re.DOTALL,
)
#: A host that folds its own history asks the same model, with the same tools, in words like these.
_FOLDING = re.compile(r"detailed summary|handoff summary|summary of (?:the|this|our) conversation", re.IGNORECASE)
#: Claude Code puts what it has to say itself at the end of what a tool said.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_DECISION = re.compile(r"Decision (\d+): use berth (\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request of the agent, as it was measured."""

    turn: int
    tokens: int
    size: int
    #: How much of it the request before began with.
    same: int
    summaries: frozenset[str]
    evidence: bool
    #: How many users' texts and last replies of turns are not shown, but for what stands for them.
    missing: int
    refused: bool = False


@dataclass
class ScriptedModel:
    """Serves as long as it is open. `shell` says how this host's model runs a command."""

    limit: int
    refuses: bool
    shell: Callable[[str], Use]
    seen: list[Seen] = field(default_factory=list)
    asides: int = 0
    #: Everything that the model said, and every line that tools said to it.
    said: list[str] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._turn: Turn | None = None
        self._left: list[Step] = []
        self._marks: list[str] = []
        self._looks = 0
        self._number, self._before = 0, ""
        outer = self

        class Handler(_Handler):
            model = outer

        self._server = _Server(("127.0.0.1", 0), Handler)

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def begin(self, turn: Turn) -> None:
        """What is asked from now on belongs to this turn."""
        with self._lock:
            self._turn, self._left, self._looks = turn, list(turn.steps), 0
            self._marks.append(f"[T{turn.number:03}]")

    @property
    def is_done(self) -> bool:
        """Whether all of the turn was played."""
        return not self._left

    def answer(self, prompt: Prompt) -> tuple[int, Reply, int]:
        """A number for the reply, the reply, and how many tokens the request has."""
        tokens = count(prompt.tools_json) + sum(count(piece.text) + EACH for piece in prompt.pieces)
        with self._lock:
            self._number += 1
            if self._is_aside(prompt):
                self.asides += 1
                return self._number, Reply(_note(prompt)), tokens
            refused = self.refuses and tokens > self.limit
            self._notice(prompt, tokens, refused=refused)
            if refused:
                return self._number, Reply(status=400, error=wire.too_long(prompt.kind, tokens, self.limit)), tokens
            return self._number, self._play(prompt), tokens

    def _is_aside(self, prompt: Prompt) -> bool:
        """Titles, suggestions, summaries: whatever is not the agent's own request."""
        if not self._left or self._used(prompt, self.shell("true")) is None:
            return True
        last = prompt.pieces[-1]
        return last.role == "user" and bool(_FOLDING.search(last.text)) and not MARK.search(last.text)

    def _notice(self, prompt: Prompt, tokens: int, *, refused: bool) -> None:
        assert self._turn is not None
        texts = [piece.text for piece in prompt.pieces if piece.role != "tool"]
        texts += [text for piece in prompt.pieces if piece.role == "tool" for text in _REMINDER.findall(piece.text)]
        ours = "\n".join(texts)
        shown = OURS.sub("", ours)
        whole = prompt.whole
        self.seen.append(
            Seen(
                turn=self._turn.number,
                tokens=tokens,
                size=len(whole),
                same=_same(whole, self._before),
                summaries=frozenset(first or second for first, second in SUMMARY.findall(ours)),
                evidence=bool(EVIDENCE.search(ours)),
                missing=sum(mark not in shown for mark in self._marks),
                refused=refused,
            )
        )
        self._before = whole
        self.shown |= {line for piece in prompt.pieces if piece.role == "tool" for line in piece.text.splitlines()}

    def _play(self, prompt: Prompt) -> Reply:
        if self._left[0].does == "recall":
            if (use := self._look(prompt)) is not None:
                return Reply("", (use,))
            self._left.pop(0)
        step = self._left.pop(0)
        if step.does == "fail":
            return Reply(status=step.status, error="The server had an error while processing your request.")
        if step.does == "run":
            uses = [self._used(prompt, self.shell(command)) for command in step.commands]
            self.said += filter(None, [step.text, *step.commands])
            return Reply(step.text, tuple(use for use in uses if use is not None))
        found = SECRET_PATTERN.findall("\n".join(piece.text for piece in prompt.pieces))
        text = step.text.replace("{found}", found[-1] if found else "not known to me")
        self.said.append(text)
        self._marks.append(text[:20])
        return Reply(text)

    def _look(self, prompt: Prompt) -> Use | None:
        """The next way to ask the archive; none when the prompt says it already, or after three."""
        self._looks += 1
        if self._looks > 3 or any(SECRET_PATTERN.search(piece.text) for piece in prompt.pieces):
            return None
        return self._used(prompt, Use("lcm_recall", {"question": QUESTION}))

    def _used(self, prompt: Prompt, use: Use) -> Use | None:
        """A tool by the name that this prompt offers it under, or through the host's search for tools."""
        for name in prompt.tools:
            if name == use.name or name.endswith((f"__{use.name}", f".{use.name}")):
                return Use(name, use.arguments)
        if "tool_call" in prompt.tools:
            return Use("tool_call", {"id": use.name, "args": use.arguments})
        if "ToolSearch" in prompt.tools:
            return Use("ToolSearch", {"query": f"+{use.name}"})
        return None


def _same(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[:middle]) else (low, middle - 1)
    return low


def _note(prompt: Prompt) -> str:
    """A summary as a model writes it that keeps decisions and leaves out what commands printed."""
    made = dict.fromkeys(_DECISION.findall("\n".join(piece.text for piece in prompt.pieces)))
    listed = "; ".join(f"{number}: berth {berth}" for number, berth in list(made)[-60:])
    return f"Tickets of several berths were checked. Decided: {listed or 'nothing yet'}. Expand for: exact outputs."


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed goes without a word; everything else is said."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: ScriptedModel

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._write(200, b"", "text/plain")

    def do_GET(self) -> None:
        named = {"id": "scripted", "object": "model", "type": "model", "display_name": "Scripted"}
        self._send(200, {"object": "list", "data": [named], "has_more": False})

    def do_POST(self) -> None:
        body = json.loads(self._unpacked(self._content()) or b"{}")
        kind = wire.kind_of(self.path)
        if kind is None:
            self._send(404, {"error": {"message": f"no {self.path} here", "type": "not_found_error"}})
            return
        if kind == "count":
            prompt = wire.read("messages", body)
            self._send(200, {"input_tokens": count(prompt.whole)})
            return
        prompt = wire.read(kind, body, self.path)
        number, reply, tokens = self.model.answer(prompt)
        if reply.status != 200:
            self._send(reply.status, wire.refused(kind, reply.status, reply.error))
            return
        made = wire.whole(prompt, reply, number, tokens, count(reply.text) + 20 * len(reply.uses))
        if prompt.stream:
            self._write(200, b"".join(wire.events(prompt, made)), "text/event-stream")
        else:
            self._send(200, made)

    def _content(self) -> bytes:
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _unpacked(self, content: bytes) -> bytes:
        packed = (self.headers.get("content-encoding") or "identity").lower()
        if packed not in ("identity", "gzip", "deflate"):
            raise ValueError(f"a request came packed as {packed}, which this model does not read")
        return (
            gzip.decompress(content)
            if packed == "gzip"
            else zlib.decompress(content)
            if packed == "deflate"
            else content
        )

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self._write(status, json.dumps(body).encode(), "application/json")

    def _write(self, status: int, content: bytes, kind: str) -> None:
        with suppress(OSError):  # the client has gone
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

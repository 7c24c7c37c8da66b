"""A message while it is being rewritten: the document, the payloads that left it, and the steps back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.files.encodings import form_of
from lossless.files.explore import summarise
from lossless.files.recipe import FromFile, Hole, Kept, Step, with_value
from lossless.model.identity import file_id
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.files.recipe import Path, Piece
    from lossless.model.messages import Message

Reason: TypeAlias = Literal["native_image", "large_file_block", "large_tool_result", "large_raw_message"]
#: The metadata key that lossless-claw sets for each reason.
MARKS: dict[Reason, str] = {
    "native_image": "imageExternalized",
    "large_file_block": "fileBlocksExternalized",
    "large_tool_result": "toolOutputExternalized",
    "large_raw_message": "rawPayloadExternalized",
}


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that left a message, with all that their row says."""

    file_id: str
    data: bytes
    name: str
    mime: str
    reason: Reason
    summary: str
    #: None for what is not text.
    line_count: int | None
    #: The metadata key for it; None when it only serves to rebuild the original.
    note: str | None


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a text that a reference takes the place of."""

    start: int
    end: int
    reference: str
    pieces: tuple[Piece, ...]


class Draft:
    """One message on its way through the looks. Each change is a step that can be undone."""

    def __init__(self, message: Message, document: dict[str, Any], conversation_id: int, threshold_tokens: int) -> None:
        self.message = message
        self.document = document
        self.conversation_id = conversation_id
        self.threshold = threshold_tokens
        self.steps: list[Step] = []
        self.payloads: dict[str, Payload] = {}
        self._done: set[Path] = set()
        self._reference_tokens: dict[Path, int] = {}

    @property
    def format(self) -> str:
        """The format in which new blocks are written."""
        return "plain" if self.message.body is None else self.message.format

    def keep(self, data: bytes, name: str, mime: str, reason: Reason, *, text: str | None = None) -> Payload:
        """A payload of these bytes; `text` is what they say, when they are text."""
        id_ = file_id(self.conversation_id, data)
        known = self.payloads.get(id_)
        if known is not None:
            return known
        lines = None if text is None else text.count("\n") + 1
        payload = Payload(id_, data, name, mime, reason, summarise(data, name, mime), lines, MARKS[reason])
        self.payloads[id_] = payload
        return payload

    def keep_text(self, text: str, name: str, mime: str, reason: Reason) -> Payload:
        """A payload that is this text."""
        return self.keep(text.encode("utf-8", "surrogatepass"), name, mime, reason, text=text)

    def base64_pieces(self, text: str, payload: Payload) -> tuple[Piece, ...]:
        """How to write a payload as exactly this base64; where no form gives it, the text is kept, too."""
        inner = text.strip()
        lead = text[: len(text) - len(text.lstrip())]
        form = form_of(inner, payload.data)
        if form is not None:
            trail = text[len(lead) + len(inner) :]
            return tuple(piece for piece in (lead, FromFile(payload.file_id, form), trail) if piece != "")
        data = text.encode("utf-8", "surrogatepass")
        id_ = file_id(self.conversation_id, data)
        summary = f"Base64 of {payload.file_id}, as it stood in the message."
        spelled = Payload(id_, data, f"{payload.name}.b64", "text/plain", payload.reason, summary, 1, None)
        self.payloads.setdefault(id_, spelled)
        return (FromFile(id_),)

    def put(self, path: Path, value: Any, step: Step, *, is_whole: bool = True) -> None:
        """Let `value` stand at a path; `is_whole` when nothing but references is left there."""
        self.document = with_value(self.document, path, value)
        self.steps.append(step)
        if is_whole:
            self._done.add(path)

    def put_reference(self, path: Path, reference: str, payload: Payload) -> None:
        """Let a reference stand for a whole text."""
        self.put(path, reference, Step(path, (Hole((), (FromFile(payload.file_id),)),)))

    def put_cuts(self, path: Path, text: str, cuts: Iterable[Cut]) -> None:
        """Let references stand for pieces of a text; the rest of it stays."""
        shown: list[str] = []
        pieces: list[Piece] = []
        at = length = tokens = 0
        for cut in cuts:
            if cut.start > at:
                pieces.append(Kept(length, length + cut.start - at))
            shown += (text[at : cut.start], cut.reference)
            length += cut.start - at + len(cut.reference)
            tokens += estimate_tokens(cut.reference)
            pieces += cut.pieces
            at = cut.end
        if at < len(text):
            pieces.append(Kept(length, length + len(text) - at))
            shown.append(text[at:])
        self._reference_tokens[path] = self._reference_tokens.get(path, 0) + tokens
        self.put(path, "".join(shown), Step(path, (Hole((), tuple(pieces)),)), is_whole=False)

    def is_done(self, path: Path) -> bool:
        """Whether only a reference stands at a path: in the block there, or in the block whose text it is."""
        return not self._done.isdisjoint((path, (*path, "text"), path[:-1] if path[-1] == "text" else path))

    def tokens_left(self, path: Path, text: str) -> int:
        """The tokens of a text at a path without those of references in it."""
        return 0 if self.is_done(path) else estimate_tokens(text) - self._reference_tokens.get(path, 0)

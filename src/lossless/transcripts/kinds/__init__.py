"""The kinds of transcripts, in the order in which a file is tried: the most particular first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.transcripts.kinds import chatgpt, claude_code, codex, jsonl, openclaw, pi

if TYPE_CHECKING:
    from lossless.transcripts.entries import Reader

__all__ = ["KINDS"]

_READERS: tuple[Reader, ...] = (chatgpt, codex, claude_code, pi, openclaw, jsonl)
KINDS: dict[str, Reader] = {reader.KIND: reader for reader in _READERS}

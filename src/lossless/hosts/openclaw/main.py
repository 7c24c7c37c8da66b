"""The process that the plugin starts: calls come in on standard input, answers go out on standard output."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import IO

from lossless.hosts.openclaw.peer import Peer
from lossless.hosts.openclaw.service import Service

#: What calls that still run may take when the plugin hangs up.
_LAST_SECONDS = 2.0


def main() -> int:
    """Serve until the plugin hangs up. Whatever else is printed goes to standard error: standard output is taken."""
    reader, writer = take_pipes()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    serve(reader, writer)
    return 0


def serve(reader: IO[bytes], writer: IO[bytes]) -> None:
    """Serve one plugin, then let go of the archive."""
    peer = Peer(reader, writer)
    service = Service(peer)
    try:
        peer.serve(service.answer, service.lane)
    finally:
        peer.settle(_LAST_SECONDS)
        service.close()


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output, taken away from everything else in this process."""
    sys.stdout.flush()
    writer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(sys.stderr.fileno()), "wb"), errors="backslashreplace")
    return sys.stdin.buffer, writer

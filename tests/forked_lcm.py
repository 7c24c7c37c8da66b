"""An `lcm` for shell scripts that starts in a fork of a process which has imported everything: a tenth of the time.

What a script sees is the same: a process with its own arguments, folder, environment, streams and exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lossless
from lossless.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
_IMPORTED = ("store", "ingest", "compaction", "context", "recall", "maintenance", "transfer", "cli", "tui")
_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@contextmanager
def lcm_in(folder: Path) -> Iterator[None]:
    """Put such an `lcm` into the folder, for as long as it is needed."""
    address = folder / "server"
    command = [sys.executable, "-m", "tests.forked_lcm", str(address)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        client = folder / "lcm"
        client.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
        client.chmod(0o755)
        try:
            yield
        finally:
            server.terminate()


def _serve(address: str) -> None:
    for package in _IMPORTED:
        top = importlib.import_module(f"lossless.{package}")
        for module in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            importlib.import_module(module.name)
    lossless.open(":memory:", background=False).close()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        children = 0
        while True:
            connection, _ = listener.accept()
            while children and os.waitpid(-1, os.WNOHANG)[0]:
                children -= 1
            if os.fork() == 0:
                listener.close()
                _run(connection)
            children += 1
            connection.close()


def _run(connection: socket.socket) -> None:
    """Be the `lcm` that the other side of the connection asks for."""
    code = 70
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        arguments, folder, environment = json.loads(connection.makefile().readline())
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        sys.argv = ["lcm", *arguments]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 (whatever it is, the script waits for an exit code)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        connection.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])

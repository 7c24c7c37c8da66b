"""The pipes between the plugin and Python: whole frames, order within a session, nothing that waits for another."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.hosts.openclaw.rpc import CallCancelled, CallLanes, Peer, PluginCall, decode_frame, encode_frame
from tests.hosts.openclaw.plugin_end import COMMAND, KEY, PluginEnd

if TYPE_CHECKING:
    from pathlib import Path

#: Any character at all, halves of surrogate pairs among them.
_TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_a_frame_is_one_line_that_reads_back(value: Any) -> None:
    line = encode_frame(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    line.decode("utf-8")
    assert decode_frame(line) == value


def test_raw_halves_of_surrogate_pairs_are_read() -> None:
    assert decode_frame(b'{"a": "\xed\xa0\x80"}') == {"a": "\ud800"}


def test_frames_of_many_threads_stay_whole() -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            time.sleep(0.0001)
            return super().write(data)

    stream = Slow()
    writer = Peer(io.BytesIO(), stream)
    threads = [threading.Thread(target=writer.send, args=({"n": n, "text": "x" * 500},)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(decode_frame(line)["n"] for line in stream.getvalue().splitlines())
    assert found == list(range(30))


def test_lanes_keep_the_order_and_wait_for_no_other_lane() -> None:
    lanes, done, free = CallLanes(), [], threading.Event()

    def slow() -> None:
        free.wait()

    lanes.run("slow", slow)
    for n in range(20):
        lanes.run("a", lambda n=n: done.append(n))  # type: ignore[misc]
    beside = threading.Event()
    lanes.run(None, beside.set)
    assert beside.wait(60)
    assert not lanes.settle(0.05)
    free.set()
    assert lanes.settle(60)
    assert done == list(range(20))


def test_a_call_ends_when_it_is_cancelled_or_its_time_is_over() -> None:
    call = PluginCall(1, "compact", {})
    call.check()
    call.cancelled.set()
    with pytest.raises(CallCancelled, match="cancelled"):
        call.check()
    with pytest.raises(CallCancelled, match="time"):
        PluginCall(2, "compact", {}, deadline=time.monotonic() - 1).check()


def test_standard_output_belongs_to_the_protocol(tmp_path: Path) -> None:
    """Whatever is printed in this process goes to standard error."""
    code = (
        "import os, sys; from lossless.hosts.openclaw.service import take_pipes, serve; pipes = take_pipes();"
        "print('printed'); os.write(1, b'written\\n'); os.system('echo spawned'); sys.stdout.flush(); serve(*pipes)"
    )
    said = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}\nno json\n\n'
    done = subprocess.run([sys.executable, "-c", code], input=said, capture_output=True, check=True, timeout=60)
    frames = [decode_frame(line) for line in done.stdout.splitlines()]
    assert [frame.get("id") for frame in frames if "result" in frame] == [1]
    assert [frame["error"]["message"] for frame in frames if "error" in frame] == ["the line is not JSON"]
    assert all(word in done.stderr for word in (b"printed", b"written", b"spawned"))


def test_the_process_ends_when_nobody_listens_any_more(tmp_path: Path) -> None:
    for command in (COMMAND, (sys.executable, "-m", "lossless.cli.main", "bridge")):
        done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stdout) == (0, b"")


def test_odd_ids_and_params_are_answered_and_end_nothing() -> None:
    said: list[dict[str, Any]] = [
        {"id": [1], "method": "ping"},
        {"id": {}, "method": "ping"},
        {"id": [2]},
        {"method": "$/cancel", "params": [1]},
        {"method": "$/cancel", "params": {"id": [1]}},
        {"method": "$/cancel", "params": {"id": {}}},
        {"id": 3, "method": "ping", "params": {"deadlineMs": 10**400}},
        {"id": 4, "method": "explode"},
        {"id": "five", "method": "ping", "params": [1]},
    ]
    lines = b"".join(encode_frame({"jsonrpc": "2.0", **frame}) for frame in said)
    done = subprocess.run(COMMAND, input=lines, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    frames = [decode_frame(line) for line in done.stdout.splitlines()]
    assert [frame["error"]["code"] for frame in frames if frame["id"] is None] == [-32600] * 3
    answered = {frame["id"]: frame for frame in frames if frame["id"] is not None}
    assert answered.keys() == {3, 4, "five"}
    assert answered[4]["error"]["code"] == -32601
    assert "explode" in answered[4]["error"]["message"]


def test_calls_come_after_initialize_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    with PluginEnd(tmp_path / "lcm.db") as plugin:
        assert plugin.about["protocol"] == 1
        with pytest.raises(RuntimeError, match="explode"):
            plugin.call("explode")
        with pytest.raises(RuntimeError, match="messages must be a list"):
            plugin.call("commitTurn", sessionKey=KEY, advancementKey="k", messages="hello")
        with pytest.raises(RuntimeError, match="a session needs a key"):
            plugin.call("assemble", messages=[])
        assert plugin.strange == []

"""Secrets are masked before anything is worked out: the mask is stored, the secret never, and a replay is a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadPattern
from lossless.maintenance.forget import prove_absence
from lossless.testing import VirtualClock
from tests.maintenance.transcript_files import TranscriptFile
from tests.model.test_masking_secrets import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")
KEY = "sk-ant-api03-aB3dE6gH9jK2mN5pQ8sT"
Raw = dict[str, Any]


def open_engine(path: Path | str, **changed: Any) -> lossless.Engine:
    settings = lossless.Settings(**{"redact_secrets": True, "large_file_threshold_tokens": 1000} | changed)
    return lossless.open(path, settings, clock=VirtualClock(), background=False)


def window(secret: str = KEY) -> list[Raw]:
    arguments = f'{{"header": "x-api-key: {secret}"}}'
    call = {"id": "call_0123456789ab", "type": "function", "function": {"name": "get", "arguments": arguments}}
    return [
        {"role": "user", "content": f"use {secret} for it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0123456789ab", "content": f"{secret}\n" + "a log line\n" * 900},
        {"role": "assistant", "content": [{"type": "text", "text": f"It took {secret}."}]},
    ]


def contents(engine: lossless.Engine) -> list[str]:
    return [one.message.content for one in engine.archive.messages.in_order(1)]


def test_the_mask_is_stored_and_the_secret_nowhere(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        assert engine.sync(SESSION, window()).stored == 4
        assert contents(engine)[0] == "use [redacted:anthropic-key] for it"
        found = prove_absence(engine.archive.path, engine.vault, [KEY])
        assert found.ok
        assert found.files >= 3
        assert engine.verify().problems == ()


def test_what_is_shown_again_is_a_replay(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.sync(SESSION, window())
        for _ in range(2):
            again = engine.sync(SESSION, window())
            assert (again.stored, again.replayed, again.revised) == (0, 4, 0)
        assert engine.sync(SESSION, [*window(), {"role": "user", "content": "and now?"}]).stored == 1
        assert engine.append(SESSION, [{"role": "user", "content": KEY}], key="k").stored == 1
        assert engine.append(SESSION, [{"role": "user", "content": KEY}], key="k").stored == 0


def test_transcripts_are_masked_too(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "t.jsonl")
    file.say("one", "e1")
    file.say(f"two {KEY}", "e2")
    file.write({"type": "custom", "id": "n1", "parentId": "e2", "data": {"note": KEY}})
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file.path)
        engine.bootstrap(SESSION, file.path)
        assert contents(engine) == ["one", "two [redacted:anthropic-key]"]
        assert prove_absence(engine.archive.path, engine.vault, [KEY]).ok


def test_own_patterns_are_masked_and_their_masks_stay(tmp_path: Path) -> None:
    with open_engine(
        tmp_path / "lcm.db", redact_secrets=False, redact_patterns=(r"(?i)project \w+", r"\bred\w+")
    ) as engine:
        engine.append(SESSION, [{"role": "user", "content": f"Project Zebra needs {KEY}, reddish"}])
        engine.append(SESSION, [{"role": "user", "content": "so [redacted:pattern] it is"}])
        assert contents(engine) == [
            f"[redacted:pattern] needs {KEY}, [redacted:pattern]",
            "so [redacted:pattern] it is",
        ]


def test_it_is_off_unless_somebody_says_so(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", redact_secrets=False) as engine:
        engine.sync(SESSION, window())
        assert KEY in contents(engine)[0]
        assert engine.archive.redact is None


def test_patterns_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    for pattern in ("(", "a{30000000}", "(?R)"):
        with pytest.raises(BadPattern):
            open_engine(tmp_path / "lcm.db", redact_patterns=(pattern,))
    slow = open_engine(tmp_path / "slow.db", redact_patterns=(r"(?:a|aa)+$",), regex_timeout_ms=100)
    with pytest.raises(BadPattern, match="redactPatterns"):
        slow.append(SESSION, [{"role": "user", "content": "a" * 60 + "!"}])
    assert slow.archive.conversations.find(SESSION) is None
    slow.close()


@hypothesis_settings(max_examples=15)
@given(
    st.sampled_from(sorted(EXAMPLES.items())), st.sampled_from(("", "so ", '"')), st.sampled_from(("", "\n", '", and'))
)
def test_no_shape_is_stored_in_any_place_of_a_message(example: tuple[str, str], before: str, after: str) -> None:
    kind, secret = example
    with open_engine(":memory:", payloads_in_files=False) as engine:
        said: list[Raw] = [
            {"role": "user", "content": f"{before}{secret}{after}"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": f"{before}{secret}{after}", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "get", "input": {"a": [f"{before}{secret}{after}"]}}]},
        ]  # fmt: skip
        engine.sync(SESSION, said)
        kept = str([one.message for one in engine.archive.messages.in_order(1)])
        assert kept.count(f"[redacted:{kind}]") >= 3
        assert engine.sync(SESSION, said).stored == 0
        assert engine.verify().problems == ()

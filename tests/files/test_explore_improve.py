"""Better words about stored prose: asked of a model beside the turns, and nothing lost when it fails."""

from __future__ import annotations

import shlex
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.compaction.summariser import DescriptionWorker, Summariser
from lossless.engine import Engine
from lossless.errors import GuardOpen, LosslessError, ModelDenied, ModelTimeout, Stale
from lossless.files.explore import TEXT_HEADING
from lossless.llm.completion import Completion, Prompt
from lossless.maintenance.surgery import tool_outputs
from lossless.store.archive import Archive
from tests.files.archives import NOW, Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.settings.model_rules import ModelCandidate

SESSION = lossless.Session(key="agent:main:files")
PROSE = "The ferry leaves at nine and comes back at noon. " * 900
MODEL = {"large_file_summary_model": "small", "large_file_summary_provider": "acme"}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    found = Kept.open(tmp_path)
    yield found
    found.archive.close()


def worker(kept: Kept) -> DescriptionWorker:
    return DescriptionWorker(kept.archive, kept.vault, Summariser(lossless.Settings()), lambda: NOW)


def test_prose_gets_the_words_of_the_model_and_the_message_stays(kept: Kept) -> None:
    id_ = kept.append({"role": "user", "content": f"<file name='a.txt'>{PROSE}</file>"})
    kept.append({"role": "user", "content": "<file name='a.json'>" + '{"a": 1}' * 9000 + "</file>"})
    before = kept.archive.messages.get(id_)
    seen: list[str] = []
    done = worker(kept).improve(lambda prompt: seen.append(prompt) or "About ferries.", 10)  # type: ignore[func-returns-value]
    assert (len(done.file_ids), done.left, done.failure, len(seen)) == (1, 0, None, 1)
    assert kept.files.get(done.file_ids[0]).exploration_summary == "About ferries."
    assert kept.archive.messages.get(id_) == before
    assert worker(kept).improve(lambda _: "again", 10).file_ids == ()


@pytest.mark.parametrize(
    "error", [ModelTimeout("no answer"), ModelDenied("not allowed"), GuardOpen("spend", "spent", "tomorrow")]
)
def test_a_model_that_fails_leaves_what_is_there(kept: Kept, error: LosslessError) -> None:
    for n in range(3):
        kept.append({"role": "user", "content": PROSE + str(n)})
    before, calls = kept.files.listed(), []

    def fails(prompt: str) -> str:
        calls.append(prompt)
        raise error

    done = worker(kept).improve(fails, 10)
    assert (done.file_ids, done.left, done.failure, len(calls)) == ((), 3, error, 1)
    assert kept.files.listed() == before


def test_a_file_with_nothing_to_say_about_it_is_asked_for_once(kept: Kept) -> None:
    kept.append({"role": "user", "content": PROSE})
    kept.append({"role": "user", "content": PROSE + "!"})
    lost, found = kept.files.plain(2)
    Path(lost.storage_uri).unlink()
    calls: list[str] = []
    working = worker(kept)
    for _ in range(2):
        assert working.improve(lambda prompt: calls.append(prompt) or "  ", 10).left == 2  # type: ignore[func-returns-value]
    assert len(calls) == 1
    assert working.passed_over == {lost.id, found.id}
    again = worker(kept).improve(lambda _: f"{TEXT_HEADING}a copy):", 10)
    assert (again.file_ids, again.left) == ((), 2)


def test_what_a_tool_was_asked_stays_in_front(kept: Kept) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.md"}'}}
    kept.append({"role": "assistant", "content": None, "tool_calls": [call]})
    kept.append({"role": "tool", "tool_call_id": "c1", "content": PROSE}, threshold=10**9)
    tool_outputs.apply_stubs(kept.parts, tool_outputs.plan_stubs(kept.parts, 8000))
    (file_id,) = worker(kept).improve(lambda _: "About ferries.", 10).file_ids
    assert kept.files.get(file_id).exploration_summary == 'Tool input: {"path": "a.md"}\nAbout ferries.'


def test_somebody_else_was_faster(kept: Kept) -> None:
    kept.append({"role": "user", "content": PROSE})

    def slow(_: str) -> str:
        with kept.archive.writing():
            kept.files.set_summary(kept.files.plain(1)[0], "Theirs.")
        return "Ours."

    assert worker(kept).improve(slow, 10).file_ids == ()
    assert kept.files.listed()[0].exploration_summary == "Theirs."


# --- through the engine -----------------------------------------------------------------------------


class Model:
    """A describing model that says when it was asked; it answers once it is let go."""

    def __init__(self, error: LosslessError | None = None) -> None:
        self.error, self.go = error, threading.Event()
        self.go.set()
        self.prompts: list[Prompt] = []

    def connect(self, candidate: ModelCandidate) -> Any:
        assert candidate.name == "acme/small"
        return self

    def __call__(self, prompt: Prompt, /) -> Completion:
        self.prompts.append(prompt)
        self.go.wait()
        if self.error is not None:
            raise self.error
        return Completion("About ferries.", "acme/small")


def engine(folder: Path, model: Model, *, background: bool, **more: Any) -> Engine:
    settings = lossless.Settings(large_file_threshold_tokens=5_000, **(MODEL | more))
    writer = Summariser(settings, connect=model.connect)
    return Engine(Archive.open(folder / "lcm.db"), settings, background=background, summariser=writer)


def test_a_turn_does_not_wait_for_the_model(tmp_path: Path) -> None:
    model = Model()
    model.go.clear()
    with engine(tmp_path, model, background=True) as host:
        host.after_turn(SESSION, new_messages=[{"role": "user", "content": PROSE}], budget=100_000)
        assert host.archive.files.count_plain() == 1
        model.go.set()
        assert host.settle()
        assert host.archive.files.listed()[0].exploration_summary == "About ferries."
        assert "About ferries." in str(host.describe(host.archive.files.listed()[0].id))
        assert [(prompt.purpose, prompt.max_tokens) for prompt in model.prompts] == [("file", 1200)]
        host.after_turn(SESSION, new_messages=[{"role": "user", "content": "Thanks."}], budget=100_000)
        assert host.settle()
        assert len(model.prompts) == 1
        assert host.verify().problems == ()


def test_workers_and_hosts_that_allow_it_describe_files(tmp_path: Path) -> None:
    model = Model()
    with engine(tmp_path, model, background=False) as host:
        host.append(SESSION, [{"role": "user", "content": PROSE}])
        host.maintain(SESSION)
        assert host.admin.run_pending(may_ask_model=False) == []
        assert model.prompts == []
        host.maintain(SESSION, allow=True)
        assert len(model.prompts) == 1
        host.append(SESSION, [{"role": "user", "content": PROSE + "!"}])
        host.admin.run_pending()
        assert len(model.prompts) == 2
        assert host.archive.files.count_plain() == 0


def test_guards_hold_for_files_too(tmp_path: Path) -> None:
    model = Model()
    with engine(tmp_path, model, background=False, summary_max_calls_per_window=2) as host:
        host.append(SESSION, [{"role": "user", "content": PROSE + str(n)} for n in range(4)])
        done = host.admin.describe_files(SESSION)
        assert (len(done.file_ids), done.left) == (2, 2)
        assert isinstance(done.failure, GuardOpen)
        assert len(model.prompts) == 2


def test_one_process_at_a_time_describes_files(tmp_path: Path) -> None:
    model = Model()
    with engine(tmp_path, model, background=False) as host, engine(tmp_path, model, background=False) as other:
        host.append(SESSION, [{"role": "user", "content": PROSE}])
        with host.archive.writing():
            host.archive.guards.take_lease("describe files", "a third", datetime.now(UTC), timedelta(minutes=5))
        assert isinstance(other.admin.describe_files().failure, Stale)
        assert model.prompts == []
        with host.archive.writing():
            host.archive.guards.drop_lease("describe files", "a third")
        assert len(other.admin.describe_files().file_ids) == 1


def test_both_settings_are_needed(tmp_path: Path) -> None:
    for name in MODEL:
        model = Model()
        with engine(tmp_path, model, background=True, **{name: ""}) as host:
            host.after_turn(SESSION, new_messages=[{"role": "user", "content": PROSE + name}], budget=100_000)
            assert host.settle()
            assert host.admin.describe_files().file_ids == ()
            assert model.prompts == []


def test_a_command_may_be_the_model(tmp_path: Path) -> None:
    settings = lossless.Settings(
        large_file_threshold_tokens=5_000,
        large_file_summary_provider="command",
        large_file_summary_model=f"echo {shlex.quote('About ferries.')}",
    )
    with lossless.open(tmp_path / "lcm.db", settings, background=False) as host:
        host.append(SESSION, [{"role": "user", "content": PROSE}])
        assert len(host.admin.describe_files().file_ids) == 1
        assert host.archive.files.listed()[0].exploration_summary == "About ferries."

"""The store contract: what an archive must hold, whatever database keeps it, as tests that any backend can run.

Inherit from `StoreContract` in a test module, say how an engine is opened, and pytest runs the rest:

    class TestMyStore(StoreContract):
        def open(self, folder: Path) -> Engine:
            return lossless.open(folder / "lcm.db", background=False)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.engine import Engine

Body = dict[str, Any]

#: Texts that stores get wrong: empty, odd characters, a NUL, long, and the same words twice.
TEXTS = ("hello", "", "tide \x00 table", "e\u0301 \u00e9 \U0001f6a2", "a\r\nb\tc", "long " * 5_000, "hello")


def _chat(*texts: str) -> list[Body]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


class StoreContract(ABC):
    """Tests that every store passes; `open` opens the same archive each time it gets the same folder."""

    @abstractmethod
    def open(self, folder: Path) -> Engine:
        """An engine on the archive in `folder`, without background work."""

    def _contents(self, engine: Engine, session: str = "s") -> list[str]:
        found = engine.browse.find(session)
        if found is None:
            return []
        ids = [row.message_id for row in engine.browse.messages(found.id, limit=10_000).rows]
        return [engine.browse.message(id_).message.content for id_ in sorted(ids)]

    def test_what_is_stored_is_read_back_after_it_was_closed(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            engine.append("s", _chat(*TEXTS))
            before = engine.assemble("s", budget=100_000).messages
        with self.open(tmp_path) as engine:
            assert self._contents(engine) == list(TEXTS)
            assert engine.assemble("s", budget=100_000).messages == before
            assert engine.verify().ok

    def test_the_same_window_again_changes_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            window = _chat("one fish", "two fish", "red fish", "blue fish")
            engine.sync("s", window)
            report = engine.sync("s", window)
            assert (report.stored, report.replayed) == (0, len(window))
            assert len(self._contents(engine)) == len(window)

    def test_a_batch_with_a_message_that_cannot_be_read_stores_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            try:
                engine.append("s", [*_chat("fine"), {"role": 7}])
            except BadInput:
                pass
            else:
                raise AssertionError("a message without a role was taken")
            assert self._contents(engine) == []
            assert engine.verify().ok

    def test_writers_at_the_same_time_lose_and_double_nothing(self, tmp_path: Path) -> None:
        count = 20

        def write(who: int) -> None:
            with self.open(tmp_path) as engine:
                for n in range(count):
                    engine.append("s", [Incoming({"role": "user", "content": f"{who}.{n}"}, entry_id=f"{who}.{n}")])

        self.open(tmp_path).close()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(write, (1, 2, 1)))  # the third tells what the first does
        with self.open(tmp_path) as engine:
            assert sorted(self._contents(engine)) == sorted(f"{who}.{n}" for who in (1, 2) for n in range(count))
            assert engine.verify().ok

    def test_an_edit_keeps_both_wordings(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            engine.append("s", [Incoming({"role": "user", "content": "do not push to main"}, entry_id="e1")])
            engine.append("s", [Incoming({"role": "user", "content": "push to main"}, entry_id="e1")])
            assert self._contents(engine) == ["push to main"]
            (hit,) = engine.grep("push", session="s").hits
            assert [one.message.content for one in engine.browse.versions(int(hit.id))] == ["do not push to main"]
            assert engine.verify().ok

    def test_a_fold_is_taken_back_exactly(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            texts = [f"the {n}. ship is called {name}, and it sails at {n % 24} o'clock " * 20
                     for n, name in enumerate(["Ada", "Bea", "Cleo"] * 30)]  # fmt: skip
            engine.append("s", _chat(*texts))
            found = engine.browse.find("s")
            assert found is not None
            before = engine.browse.context_items(found.id)
            assert engine.compact("s", budget=8_000, force=True).compacted
            assert engine.browse.context_items(found.id) != before
            while engine.browse.context_items(found.id) != before:
                engine.undo("s")
            assert self._contents(engine) == texts
            assert engine.verify().ok

    def test_a_search_finds_words_in_its_own_session(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as engine:
            engine.append("s", _chat("the lighthouse keeper is called Marek"))
            engine.append("other", _chat("the lighthouse is closed"))
            found = engine.grep("lighthouse", session="s")
            assert ["Marek" in hit.snippet for hit in found.hits] == [True]

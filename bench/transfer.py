"""What imports and exports of whole archives cost. `python -m bench.transfer`

Messages per CPU second, on an archive of agent messages (user, assistant, tool calls and results) with its summaries.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import lossless
from bench.conversations import agent_conversation
from bench.measure import interleaved, stopwatch, table, write
from lossless.files.vault import Vault
from lossless.store.archive import Archive
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw, import_lossless_claw
from lossless.transfer.remnic import export_remnic, import_remnic

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION = lossless.Session(key="bench:transfer")
_STEP = 5_000
#: Messages per CPU second that an import must reach.
_TARGET = 5_000


def fill(path: Path, count: int) -> None:
    """An archive of so many messages, older ones folded."""
    messages = list(agent_conversation(count))
    with lossless.open(path, background=False) as engine:
        for start in range(0, count, _STEP):
            engine.append(SESSION, messages[start : start + _STEP])
        engine.compact(SESSION, budget=32_000, force=True)


class Work:
    """One folder in which each case leaves what the next one reads."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.source, self.round = folder, source, 0

    def new(self, name: str) -> Path:
        """A place where nothing lies."""
        self.round += 1
        return self.folder / f"{self.round}-{name}"

    def into(self, bring: Callable[[Archive], object]) -> float:
        """CPU seconds of an import into a new archive."""
        with Archive.open(self.new("lcm.db")) as archive, stopwatch() as watch:
            bring(archive)
        return watch.seconds

    def out(self, put: Callable[[Archive], object]) -> float:
        """CPU seconds of an export of the source."""
        with Archive.open(self.source, read_only=True) as archive, stopwatch() as watch:
            put(archive)
        return watch.seconds


def cases(work: Work, count: int) -> dict[str, Callable[[], float]]:
    """Every import and export, on the same conversations."""
    claw, remnic, lines = work.folder / "claw.db", work.folder / "remnic.sqlite", work.folder / "all.jsonl"
    vault, options = Vault(work.folder / "lcm-files"), TransferOptions()
    with Archive.open(work.source, read_only=True) as archive:
        export_lossless_claw(archive, vault, claw, TransferOptions(plain=True))
        export_remnic(archive, vault, remnic)
        export_archive(archive, vault, lines)
        assert archive.listings.counts().messages == count
    return {
        "import lossless-claw": lambda: work.into(lambda to: import_lossless_claw(claw, to, vault, options)),
        "import lossless-claw, own archive": lambda: work.into(
            lambda to: import_lossless_claw(work.source, to, vault, options)
        ),
        "import remnic": lambda: work.into(lambda to: import_remnic(remnic, to, vault, options)),
        "import archive": lambda: work.into(lambda to: import_archive(lines, to, vault, options)),
        "export lossless-claw": lambda: work.out(lambda of: export_lossless_claw(of, vault, work.new("claw.db"))),
        "export remnic": lambda: work.out(lambda of: export_remnic(of, vault, work.new("remnic.sqlite"))),
        "export archive": lambda: work.out(lambda of: export_archive(of, vault, work.new("all.jsonl"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "source.db", given.messages)
        found = interleaved(cases(Work(folder, folder / "source.db"), given.messages), given.repeat)
    rows = [
        {
            "case": case,
            "CPU s": round(cpu.median, 3),
            "messages/CPU s": round(given.messages / cpu.median),
            "target": _TARGET if case.startswith(("import lossless", "import remnic")) else None,
        }
        for case, cpu in found.items()
    ]
    table(rows, f"{given.messages:,} messages")
    meta = {"input": f"bench.conversations.agent_conversation({given.messages})", "seed": 0, "repeat": given.repeat}
    write("transfer", rows, meta)


if __name__ == "__main__":
    main()

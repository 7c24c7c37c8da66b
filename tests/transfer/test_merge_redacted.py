"""Archives that come in while secrets are masked: the mask comes, the secret never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import BadInput
from lossless.maintenance.forget import prove_absence
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import TransferOptions, import_lossless_claw
from tests.maintenance.keeping import open_engine, words

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import ImportReport

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
SESSION = lossless.Session(key="agent:main:main", id="run-1")


@pytest.fixture
def source(tmp_path: Path) -> lossless.Engine:
    """An archive that holds a secret in a message, a payload, a summary, a version and a pin."""
    (tmp_path / "there").mkdir()
    engine = open_engine(tmp_path / "there" / "lcm.db", fresh_tail_count=2)
    window = [{"role": "user", "content": f"{n}: {words(n)} {SECRET if n in (2, 3) else ''}"} for n in range(12)]
    window[4]["content"] = f"{SECRET}\n{words('long', 3000)}"
    engine.sync(SESSION, window)
    window[1]["content"] += f" {SECRET}"
    engine.sync(SESSION, window)
    window[1]["content"] = "1: something else"
    engine.sync(SESSION, window)
    engine.compact(SESSION, force=True)
    engine.pin(SESSION, f"use {SECRET}")
    return engine


def absent(engine: lossless.Engine) -> None:
    found = prove_absence(engine.archive.path, engine.vault, [SECRET])
    assert [f"{trace['file']}: {trace['place']}" for trace in found.traces] == []
    assert [str(problem) for problem in engine.verify().problems if problem.severity == "error"] == []


@pytest.mark.parametrize("kind", ["archive", "lossless-claw"])
def test_the_mask_comes_and_the_secret_never(source: lossless.Engine, tmp_path: Path, kind: str) -> None:
    assert not prove_absence(source.archive.path, source.vault, [SECRET]).ok
    file = tmp_path / "there" / "out.jsonl"
    if kind == "archive":
        export_archive(source.archive, source.vault, file, TransferOptions())

    def bring(engine: lossless.Engine, *, dry_run: bool = False) -> ImportReport:
        options = TransferOptions(dry_run=dry_run)
        if kind == "archive":
            return import_archive(file, engine.archive, engine.vault, options)
        return import_lossless_claw(source.archive.path, engine.archive, engine.vault, options)

    (tmp_path / "here").mkdir()
    with open_engine(tmp_path / "here" / "lcm.db", redact_secrets=True) as engine:
        engine.append(lossless.Session(key="agent:main:own"), [{"role": "user", "content": "hello"}])
        assert bring(engine, dry_run=True).messages_inserted == 12
        report = bring(engine)
        assert report.messages_inserted == 12
        absent(engine)
        masked = "SELECT count(*) FROM messages WHERE content LIKE '%[redacted:github-token]%'"
        assert engine.archive.database.rows(masked)[0][0] >= 2
        assert bring(engine).messages_inserted == 0
        absent(engine)
    source.close()


def test_what_was_stored_before_stays_as_it_is(source: lossless.Engine, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "lcm.db"
    with open_engine(path) as engine:
        engine.append(lossless.Session(key="agent:main:own"), [{"role": "user", "content": f"mine: {SECRET}"}])
    with open_engine(path, redact_secrets=True) as engine:
        import_lossless_claw(source.archive.path, engine.archive, engine.vault)
        held = engine.archive.database.rows("SELECT content FROM messages WHERE instr(content, ?)", (SECRET,))
        assert held == [(f"mine: {SECRET}",)]
        with pytest.raises(BadInput, match="archive itself"):
            import_lossless_claw(path, engine.archive, engine.vault)
    source.close()

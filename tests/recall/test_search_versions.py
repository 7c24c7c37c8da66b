"""Words that stand only in a version are found, behind current ones, and every such hit says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless import formats
from lossless.model.identity import fingerprint, identity_hash
from lossless.store.messages import NewMessage
from tests.faults import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main")
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def revise(engine: lossless.Engine, message_id: int, text: str) -> None:
    archive, message = engine.archive, formats.decode({"role": "user", "content": text})
    new = NewMessage(message, identity_hash("user", text), fingerprint(message), NOW)
    with archive.writing():
        conversation = archive.conversations.get(archive.messages.get(message_id).conversation_id)
        archive.versions.revise(conversation, message_id, new, NOW)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[lossless.Engine]:
    with open_engine(tmp_path / "lcm.db") as engine:
        texts = [
            "Deploy the zebrafish service to Hamburg",
            "The zebrafish waits in the harbour",
            "Something else entirely",
        ]
        ids = engine.append(SESSION, [{"role": "user", "content": text} for text in texts]).message_ids
        revise(engine, ids[0], "Deploy the service to Bremen")
        yield engine


@pytest.mark.parametrize(
    ("pattern", "mode"), [("zebrafish", "full_text"), ("zebraf.sh", "regex"), ("brafi", "full_text")]
)
def test_current_words_come_first_and_versions_say_what_they_are(
    engine: lossless.Engine, pattern: str, mode: str
) -> None:
    found = engine.grep(pattern, session=SESSION, mode=mode)  # type: ignore[arg-type]
    hits = [hit for hit in found.hits if hit.matches]
    assert [(hit.id, hit.version) for hit in hits] == [(2, None), (1, "earlier")]
    assert hits[1].snippet.startswith("[earlier words] ")
    start, end = hits[1].matches[0]
    assert hits[1].snippet[start:end] in ("zebrafish", "brafi")
    assert "[earlier words]" in str(found)


@pytest.mark.parametrize("mode", ["full_text", "regex"])
def test_words_that_are_only_in_versions_are_found_page_by_page(engine: lossless.Engine, mode: str) -> None:
    ids = engine.append(SESSION, [{"role": "user", "content": f"Note {n} about quokkas"} for n in range(7)]).message_ids
    for id_ in ids:
        revise(engine, id_, f"Note {id_} withdrawn")
    seen: list[object] = []
    cursor = None
    while True:
        found = engine.grep("quokkas", session=SESSION, mode=mode, limit=3, cursor=cursor)  # type: ignore[arg-type]
        seen += [hit.id for hit in found.hits]
        cursor = found.cursor
        if not found.truncated:
            break
    assert sorted(seen, key=str) == sorted(ids, key=str)


def test_a_message_whose_current_words_match_is_one_hit(engine: lossless.Engine) -> None:
    found = engine.grep("Deploy service", session=SESSION)
    assert [(hit.id, hit.version) for hit in found.hits if hit.id == 1] == [(1, None)]


def test_evidence_has_no_retracted_words(engine: lossless.Engine) -> None:
    _, _, evidence = str(engine.recall("Is it deployed to Hamburg?", session=SESSION)).partition("\n")
    assert "Bremen" in evidence
    assert "Hamburg" not in evidence


def test_describe_shows_versions(engine: lossless.Engine) -> None:
    described = engine.describe("msg#1", session=SESSION)
    assert "earlier 2026-05-04" in str(described)
    assert "Hamburg" in str(described)
    (version,) = described.details["message"]["versions"]
    assert (version["kind"], version["content"]) == ("earlier", "Deploy the zebrafish service to Hamburg")

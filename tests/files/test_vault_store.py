"""Payloads in an archive: rows, references, originals, and what a crash leaves."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from lossless import formats
from lossless.errors import NotFound
from lossless.files.vault import Vault, delete_orphans, payload_reader, write_payloads
from lossless.model.context import MessageItem, NewSummary
from lossless.model.conversations import Session
from lossless.model.identity import file_ids_in, fingerprint
from lossless.model.messages import StoredFile
from lossless.store.search import SearchScope
from tests.files.archives import NOW, Kept
from tests.files.payloads import LARGE, Body, b64, bodies, caught, png

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = {"type": "image", "data": b64(png()), "mimeType": "image/png"}
EXAMPLES: list[Body] = [
    {"role": "user", "content": LARGE},
    {"role": "user", "content": f"a <file name='x.csv' mime='text/csv'>{LARGE}</file> b"},
    {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE], "timestamp": 1767604939538},
    {"role": "toolResult", "toolCallId": "c", "toolName": "exec", "content": [{"type": "text", "text": LARGE}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": LARGE, "x": 1.0}]},
    {"role": "tool", "tool_call_id": "c", "content": LARGE},
    {"role": "assistant", "content": [{"type": "text", "text": LARGE}], "api": "a", "provider": "p", "model": "m"},
    {"type": "function_call_output", "call_id": "c", "output": LARGE + "\ud800"},
    {"role": "user", "content": {"b": LARGE, "a": 1}},
]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    found = Kept.open(tmp_path)
    yield found
    found.archive.close()


@pytest.mark.parametrize("body", EXAMPLES)
def test_originals_come_back_from_the_archive(kept: Kept, body: Body) -> None:
    id_ = kept.append(body)
    stored = kept.archive.messages.get(id_)
    assert LARGE[:100] not in json.dumps(stored.message.original)
    assert stored.file_id is None
    back = kept.original(id_)
    assert json.dumps(back.original) == json.dumps(body)
    assert back.content == formats.decode(body).content
    assert fingerprint(back) == fingerprint(formats.decode(body))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies())
def test_every_original_comes_back_from_the_archive(kept: Kept, body: Body) -> None:
    id_ = kept.append(body)
    if kept.archive.context.recipes([id_]):
        assert json.dumps(kept.original(id_).original) == json.dumps(body)
    else:
        assert json.dumps(kept.archive.messages.get(id_).message.original) == json.dumps(body)


@pytest.mark.parametrize("body", EXAMPLES)
def test_what_is_noted_does_not_change_the_message(kept: Kept, body: Body) -> None:
    shown = caught(body).message
    stored = kept.archive.messages.get(kept.append(body)).message
    assert (stored.role, len(stored.parts)) == (shown.role, len(shown.parts))
    assert len(stored.content) == len(shown.content)
    assert stored.tokens == shown.tokens


def test_a_row_says_all_about_its_file(kept: Kept) -> None:
    id_ = kept.append({"role": "user", "content": f"<file name='x.csv' mime='text/csv'>{LARGE}</file>"})
    (file_id,) = file_ids_in(kept.archive.messages.get(id_).message.content)
    file = kept.files.get(file_id)
    place = str(kept.vault.root / "1" / f"{file_id}.csv")
    assert file == StoredFile(
        file_id, 1, "x.csv", "text/csv", len(LARGE), LARGE.count("\n") + 1, place, file.exploration_summary, NOW
    )
    assert (file.exploration_summary or "").startswith("Structured summary (CSV):")
    assert Path(place).read_text() == LARGE
    assert kept.vault.read(file).data == LARGE.encode()


def test_metadata_is_lossless_claws(kept: Kept) -> None:
    first = kept.append(EXAMPLES[1])
    second = kept.append(EXAMPLES[2])
    query = (
        "SELECT message_id, ordinal, part_type, text_content, metadata FROM message_parts ORDER BY message_id, ordinal"
    )
    rows = [(*row[:4], json.loads(row[4])) for row in kept.archive.database.rows(query)]
    for row in rows:
        row[4].pop("restore", None)
    csv, image = (file_ids_in(kept.archive.messages.get(id_).message.content)[0] for id_ in (first, second))
    assert rows[0] == (
        first, 0, "text", None,
        {
            "originalRole": "user", "topLevelReasoningOnly": True, "externalizedFileIds": [csv],
            "fileBlocksExternalized": True, "externalizationReason": "large_file_block",
        },
    )  # fmt: skip
    assert rows[1][:4] == (second, 0, "text", "look")
    reference = f"[User image: user-image.png (image/png, 33 bytes) | LCM file: {image}]"
    assert rows[2] == (
        second, 1, "text", reference,
        {
            "originalRole": "user", "externalizedFileId": image, "originalByteSize": 33, "imageExternalized": True,
            "externalizationReason": "native_image",
        },
    )  # fmt: skip


def test_the_same_payload_twice_is_one_file(kept: Kept) -> None:
    for _ in range(2):
        kept.append({"role": "user", "content": LARGE})
    assert len(kept.files.listed()) == 1
    assert len(list((kept.vault.root / "1").iterdir())) == 1
    kept.append({"role": "user", "content": LARGE}, key="agent:other:main")
    assert sorted(file.conversation_id for file in kept.files.listed()) == [1, 2]


def test_a_lost_file_is_written_again_when_it_comes_again(kept: Kept) -> None:
    id_ = kept.append({"role": "user", "content": f"<file name='x.csv'>{LARGE}</file>"})
    (file,) = kept.files.listed()
    Path(file.storage_uri).unlink()
    with pytest.raises(NotFound, match="stored bytes"):
        kept.original(id_)
    kept.append({"role": "user", "content": LARGE})  # the same bytes under another name
    assert len(kept.files.listed()) == 1
    assert kept.original(id_).content.endswith("</file>")


def test_pages_of_files_join_up_whatever_their_times(kept: Kept) -> None:
    for n in range(7):
        kept.append({"role": "user", "content": LARGE + str(n)}, key=f"agent:{n % 2}:main")
    times = ["2026-01-05 09:00:00", "2026-01-05T09:00:00.000Z", "no time", "2026-01-05 08:59:59"]
    for n, file in enumerate(kept.files.listed()):
        row = (times[n % len(times)], file.id)
        kept.archive.database.run("UPDATE large_files SET created_at = ? WHERE file_id = ?", row)
    whole = kept.files.listed()
    assert [file.created_at for file in whole] == sorted((file.created_at for file in whole), reverse=True)
    for limit in (1, 2, 3, 7):
        found: list[StoredFile] = []
        place = None
        while True:
            page = kept.files.page(SearchScope(), limit, place)
            found += page.rows
            place = page.next
            if place is None:
                break
        assert found == whole


def test_lists(kept: Kept) -> None:
    kept.append({"role": "user", "content": LARGE})
    kept.append({"role": "user", "content": LARGE + "x"}, key="agent:other:main")
    rows = kept.files.listed()
    assert len(rows) == 2
    assert {file.conversation_id for file in rows} == {1, 2}
    assert [file.conversation_id for file in kept.files.listed(SearchScope((2,)))] == [2]
    assert kept.files.listed(SearchScope(())) == []
    assert len(kept.files.listed(file_ids=[rows[0].id])) == 1
    assert kept.files.page(SearchScope(), 2).next is None
    assert kept.files.totals(SearchScope()) == (2, sum(file.byte_size or 0 for file in rows))
    now = round(NOW.timestamp() * 1000)
    assert len(kept.files.listed(SearchScope(since=now))) == kept.files.totals(SearchScope(since=now))[0] == 2
    assert kept.files.listed(SearchScope(before=now)) == []
    assert kept.files.totals(SearchScope(before=now)) == (0, 0)
    assert kept.files.listed(SearchScope(since=now + 1000)) == []
    with pytest.raises(NotFound, match="file_0000000000000000"):
        kept.files.get("file_0000000000000000")
    with pytest.raises(NotFound, match="file_0000000000000000"):
        payload_reader(kept.files.many, kept.vault)("file_0000000000000000")


# --- who refers to files --------------------------------------------------------------------------


def test_references_are_found_wherever_they_are(kept: Kept) -> None:
    id_ = kept.append({"role": "user", "content": LARGE})
    odd = b64(png())[:9] + "\n" + b64(png())[9:]
    kept.append({"role": "user", "content": [{"type": "image", "data": odd, "mimeType": "image/png"}], "timestamp": 1})
    named = [f"file_{digit * 16}" for digit in "abcdef"]
    conversation = kept.archive.conversations.open(Session(key="agent:main:main"), NOW)
    rows = [StoredFile(name, conversation.id, None, None, 1, None, "/x", None, NOW) for name in named]
    with kept.archive.writing():
        kept.files.add(rows)
        kept.append({"role": "user", "content": f"see {named[0]}"})
        kept.files.set_stub(id_, named[1])
        source = kept.archive.messages.get(kept.append({"role": "user", "content": "many words " * 30}))
        item = MessageItem(source.seq - 1, source.id, "user", source.message.tokens, source.seq)
        new = NewSummary("sum_0123456789abcdef", 0, f"about {named[3]}", 5, "m", (named[2],))
        kept.archive.summaries.insert(conversation.id, [item], new, NOW)
    assert {file.id for file in kept.files.listed()} - kept.files.referenced_ids() == set(named[4:])
    assert len(kept.files.ids()) == len(named) + 3  # the raw payload, the picture, and its odd base64


# --- crashes and collecting -------------------------------------------------------------------------


def _die_between_file_and_row(folder: str) -> None:
    kept = Kept.open(Path(folder))
    kept.append({"role": "user", "content": "first"})
    with kept.archive.writing():
        payloads = caught({"role": "user", "content": LARGE}).payloads
        kept.files.add(write_payloads(kept.files.many, kept.vault, 1, payloads, NOW))
        os._exit(1)


def test_a_crash_between_file_and_row_leaves_an_orphan(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_die_between_file_and_row, args=(str(tmp_path),))
    process.start()
    process.join(60)
    assert process.exitcode == 1
    kept = Kept.open(tmp_path)
    try:
        assert kept.files.listed() == []
        assert kept.vault.orphans(kept.files.ids()) == []  # too young: somebody may be about to write its row
        (orphan,) = kept.vault.orphans(kept.files.ids(), min_age_seconds=-1)
        assert orphan.path.read_text() == LARGE
        with kept.archive.writing():
            assert delete_orphans(kept.vault, [orphan], kept.files.ids()) == [orphan]
        assert not orphan.path.exists()
        kept.append({"role": "user", "content": LARGE})
        assert kept.vault.orphans(kept.files.ids(), min_age_seconds=-1) == []
    finally:
        kept.archive.close()


def test_nothing_with_a_row_is_collected(kept: Kept) -> None:
    kept.append({"role": "user", "content": LARGE})
    found = kept.vault.orphans(frozenset(), min_age_seconds=-1)
    assert len(found) == 1
    with kept.archive.writing():
        assert delete_orphans(kept.vault, found, kept.files.ids()) == []
    assert kept.vault.read(kept.files.listed()[0]).data == LARGE.encode()


def test_a_rolled_back_message_leaves_only_an_orphan(kept: Kept) -> None:
    def interrupted() -> None:
        with kept.archive.writing():
            kept.append({"role": "user", "content": LARGE})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert kept.files.listed() == []
    assert len(kept.vault.orphans(kept.files.ids(), min_age_seconds=-1)) == 1


# --- files that lossless-claw wrote -----------------------------------------------------------------


def test_a_file_of_lossless_claw_is_read_where_this_vault_lies(kept: Kept) -> None:
    kept.append({"role": "user", "content": "first"})
    id_ = "file_b0b7d05a46d54462"
    kept.vault.write(1, id_, "txt", b"2026-01-05T09:00:00Z ERROR\n")
    place = f"/home/user/.openclaw/lcm-files/1/{id_}.txt"
    kept.files.add([StoredFile(id_, 1, "read.txt", "text/plain", 27, 2, place, "Text", NOW)])
    assert kept.vault.read(kept.files.get(id_)).data == b"2026-01-05T09:00:00Z ERROR\n"
    assert kept.archive.context.recipes([1]) == {}
    assert (
        Vault(kept.vault.root).read(replace(kept.files.get(id_), storage_uri=f"{kept.vault.root}/1/{id_}.txt")).total
        == 27
    )


# --- calls --------------------------------------------------------------------------------------------


def test_the_tool_behind_a_call_is_found(kept: Kept) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "exec", "arguments": '{"cmd": "ls"}'}}
    kept.append({"role": "assistant", "content": None, "tool_calls": [call]})
    kept.append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
    found = kept.files.call(1, "call_1", None)
    assert found is not None
    assert found[0] == "exec"
    assert "ls" in (found[1] or "")
    assert kept.files.call(1, "call_1", 1) is None
    assert kept.files.call(1, "call_2", None) is None
    assert kept.files.call(2, "call_1", None) is None

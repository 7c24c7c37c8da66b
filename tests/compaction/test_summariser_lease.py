"""Leases: one worker at a time, prolonged while it works, let go of at the end."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lossless.compaction.summariser import lease, lease_length, lease_name
from lossless.store.archive import Archive
from lossless.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = lease_name(7)
CALL_MS = 60_000


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive.open(":memory:") as opened:
        yield opened


def test_one_at_a_time(archive: Archive) -> None:
    clock = VirtualClock()
    with lease(archive, NAME, clock, CALL_MS) as first, lease(archive, NAME, clock, CALL_MS) as second:
        assert not archive.guards.is_leased(NAME, clock()), "nobody asked for it yet"
        assert first()
        assert not second()
        assert first()
        assert archive.guards.is_leased(NAME, clock())
    assert not archive.guards.is_leased(NAME, clock())


def test_a_lease_that_ran_out_is_anybodys_and_is_not_let_go_of_by_its_former_owner(archive: Archive) -> None:
    clock = VirtualClock()
    with lease(archive, NAME, clock, CALL_MS) as second:
        with lease(archive, NAME, clock, CALL_MS) as first:
            assert first()
            clock.advance(seconds=(lease_length(CALL_MS) + timedelta(seconds=1)).total_seconds())
            assert second()
            assert not first()
        assert archive.guards.is_leased(NAME, clock())


def test_a_lease_within_a_transaction_belongs_to_it(archive: Archive) -> None:
    clock = VirtualClock()
    with lease(archive, NAME, clock, CALL_MS) as prolong:
        with suppress(KeyError), archive.writing():
            assert prolong()
            raise KeyError
        assert not archive.guards.is_leased(NAME, clock())


def test_whatever_ends_the_work_lets_go_of_it(archive: Archive) -> None:
    clock = VirtualClock()
    with suppress(KeyboardInterrupt), lease(archive, NAME, clock, CALL_MS) as prolong:
        assert prolong()
        raise KeyboardInterrupt
    assert not archive.guards.is_leased(NAME, clock())

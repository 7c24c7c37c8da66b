"""Some runs of each kind of host, and proof that the judge sees what it is there for."""

from __future__ import annotations

from random import Random

import pytest

from tests.hosts_fuzz import judge
from tests.hosts_fuzz.calls import Call, Shown, sync
from tests.hosts_fuzz.formats import read, write
from tests.hosts_fuzz.kinds import KINDS
from tests.hosts_fuzz.play import Run, is_sane, make_run, play, shrink, stage, told
from tests.hosts_fuzz.rules import EITHER, GONE, KEEP, Expected
from tests.hosts_fuzz.stored import Row
from tests.hosts_fuzz.undecidable import undecidable
from tests.hosts_fuzz.words import Words, sentence

RUNS = 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_loses_and_doubles_nothing(kind: str) -> None:
    with stage() as opened:
        for seed in range(RUNS):
            run = make_run(kind, seed)
            played = play(opened, run)
            if played.problems:
                short = shrink(opened, run, played.problems[0].what)
                pytest.fail(told(short, play(opened, short)))
        assert not opened.engine.verify().problems


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("leaves out tool rounds", 2_000_293),
        ("branches", 2_001_630),
        ("head cut", 2_000_494),
        ("cuts results", 2_001_321),
        ("edits and cuts off", 2_500_189),
        ("edits and cuts off", 3_000_025),
        ("sliding", 2_501_108),
        ("translates", 1_000_028),
        ("translates", 2_501_750),
        ("translates", 2_502_078),
        ("branches", 9_004_459),
        ("edits, sliding", 9_005_062),
        ("two tabs", 3_000_934),
        ("two tabs", 3_001_098),
        ("two tabs", 3_001_180),
        ("reorders", 4_000_027),
        ("edits and cuts off", 4_000_230),
        ("branches", 4_000_277),
        ("two tabs", 4_000_401),
        ("edits system", 4_000_024),
        ("head cut", 4_001_330),
        ("edits and cuts off", 4_001_599),
        ("translates", 7_000_192),
        ("edits and cuts off", 7_001_624),
        ("sliding", 7_001_764),
        ("head cut", 7_000_699),
        ("time before, sliding", 7_007_147),
        ("sliding", 9_000_493),
        ("comes and goes", 9_000_017),
        ("edits and cuts off", 9_001_460),
        ("time before, sliding", 9_002_473),
        ("edits and cuts off", 9_002_977),
        ("sliding", 9_003_363),
        ("edits and cuts off", 9_501_173),
        ("head cut", 9_601_970),
        ("edits and cuts off", 9_701_050),
        ("replaying", 9_803_202),
        ("edits and cuts off", 9_806_667),
        ("edits and cuts off", 9_604_517),
        ("head cut", 9_608_658),
        ("deletes", 9_608_641),
        ("edits several", 9_614_883),
        ("edits and cuts off", 9_606_763),
        ("edits and cuts off", 9_613_394),
        ("edits and cuts off", 770_461),
        ("edits and cuts off", 770_680),
        ("edits and cuts off", 770_030),
        ("own placeholder", 9_707_077),
        ("own placeholder", 1_300_002_840),
        ("edits, sliding", 1_300_001_003),
        ("head cut", 1_300_002_872),
        ("edits and cuts off", 55_001_050),
        ("deletes", 55_002_896),
        ("edits and cuts off", 56_002_198),
        ("two tabs", 59_000_606),
        ("edits and cuts off", 60_002_161),
        ("edits and cuts off", 2_000_001_337),
        ("edits and cuts off", 2_200_000_530),
        ("edits and cuts off", 2_200_002_420),
        ("head cut", 1_600_000_658),
        ("time before, sliding", 2_400_007_364),
        ("splits", 2_400_015_365),
        ("edits, sliding", 2_700_007_748),
        ("time before, sliding", 2_500_000_244),
        ("head cut", 2_500_000_245),
        ("comes and goes", 3_000_000_060),
        ("comes and goes", 3_000_000_942),
        ("comes and goes", 3_000_002_454),
        ("time before, sliding", 3_000_002_450),
        ("sliding", 3_000_000_253),
        ("head cut", 5_000_001_556),
        ("edits, sliding", 5_000_005_900),
        ("edits and cuts off", 2_000_001_050),
        ("head cut", 5_000_008_654),
        ("edits and cuts off", 7_000_000_026),
        ("edits and cuts off", 11_000_003_806),
        ("edits and cuts off", 31_000_001_412),
        ("edits, sliding", 31_000_005_354),
        ("edits and cuts off", 31_000_007_460),
        ("edits, sliding", 32_000_004_346),
        ("edits and cuts off", 37_000_002_798),
        ("edits and cuts off", 4_100_004_520),
        ("edits and cuts off", 4_100_009_014),
        ("edits and cuts off", 4_200_003_680),
        ("edits and cuts off", 4_200_005_948),
        ("regenerates", 4_300_000_576),
        ("edits and cuts off", 5_100_005_108),
        ("branches", 6_200_009_608),
    ],
)
def test_runs_that_went_wrong_once(kind: str, seed: int) -> None:
    with stage() as opened:
        assert play(opened, make_run(kind, seed)).problems == []


# --- the judge ---

TEXTS = [sentence(Random(n), f"t{n}") for n in range(9)]


def message(number: int, role: str | None = None, text: str | None = None, **more: bool) -> Shown:
    said = Words(role or ("assistant" if number % 2 else "user"), TEXTS[number] if text is None else text)
    return Shown((f"e{number}",), said, **more)  # type: ignore[arg-type]


def expecting(*calls: Call) -> Expected:
    expected = Expected()
    for call in calls:
        expected.take(call)
    return expected


def rows_of(*shown: Shown) -> list[Row]:
    return [Row(n, 1, one.words, True, None, set(one.words.pieces)) for n, one in enumerate(shown)]


def prompt_of(*shown: Shown) -> list[object]:
    return [write(one.words, "openai-chat") for one in shown]


ALL = [message(number) for number in range(6)]


def test_an_archive_that_has_all_is_right() -> None:
    expected = expecting(sync(ALL[:4]), sync(ALL))
    rows = rows_of(*ALL)
    assert judge.lost(expected, rows) == judge.hidden(rows) == []
    assert judge.rows_fit(expected, rows, 0, by_conversation=False) == []
    assert judge.context(expected, prompt_of(*ALL), 0) == []


def test_a_wording_that_is_nowhere_is_lost() -> None:
    edited = message(2, text="other words")
    expected = expecting(sync(ALL), sync([*ALL[:2], edited, *ALL[3:]]))
    (problem,) = judge.lost(expected, rows_of(*ALL))
    assert "other words" in problem.saying
    assert judge.lost(expected, rows_of(*ALL, edited)) == []


def test_a_second_row_of_an_event_is_doubled() -> None:
    (problem,) = judge.rows_fit(expecting(sync(ALL)), rows_of(*ALL, ALL[2]), 0, by_conversation=False)
    assert problem.what == "doubled"


def test_a_row_in_old_words_is_stale() -> None:
    edited = message(2, text="other words")
    expected = expecting(sync(ALL), sync([*ALL[:2], edited, *ALL[3:]]))
    (problem,) = judge.rows_fit(expected, rows_of(*ALL), 0, by_conversation=False)
    assert problem.what == "stale"


def test_a_repeat_is_missing_unless_it_is_counted() -> None:
    again = [*ALL, message(6, text=ALL[0].words.text)]
    expected = expecting(sync(again))
    (problem,) = judge.rows_fit(expected, rows_of(*ALL), 0, by_conversation=False)
    assert problem.what == "missing"
    assert judge.rows_fit(expected, rows_of(*ALL), 1, by_conversation=False) == []


def test_what_is_not_repeated_is_missing_whatever_is_counted() -> None:
    (problem,) = judge.rows_fit(expecting(sync(ALL)), rows_of(*ALL[:5]), 9, by_conversation=False)
    assert problem.what == "missing"


@pytest.mark.parametrize(
    "prompt",
    [[*ALL[:2], *ALL[3:]], ALL[:5], [*ALL, ALL[0]], [ALL[1], ALL[0], *ALL[2:]]],
    ids=["one left out", "cut off", "one twice", "other order"],
)
def test_a_prompt_that_is_not_the_hosts_is_wrong(prompt: list[Shown]) -> None:
    assert judge.context(expecting(sync(ALL)), prompt_of(*prompt), 0)


def test_retracted_words_in_the_prompt_are_wrong() -> None:
    edited = message(2, text="other words")
    expected = expecting(sync(ALL), sync([*ALL[:2], edited, *ALL[3:]]))
    assert judge.context(expected, prompt_of(*ALL), 0)
    assert judge.context(expected, prompt_of(*ALL[:2], edited, *ALL[3:]), 0) == []


def test_a_row_out_of_the_context_needs_a_cause() -> None:
    rows = rows_of(*ALL)
    rows[0].in_context = False
    assert judge.hidden(rows)
    rows[0].cause = "branch"
    assert judge.hidden(rows) == []


# --- the rules ---


def states(expected: Expected) -> list[str]:
    return [unit.state for unit in expected.units]


def test_an_exchange_that_is_left_out_leaves_and_a_longer_run_stays() -> None:
    assert states(expecting(sync(ALL), sync([*ALL[:2], *ALL[4:]]))) == [KEEP] * 2 + [GONE] * 2 + [KEEP] * 2
    assert states(expecting(sync(ALL), sync([ALL[0], *ALL[4:]]))) == [KEEP] * 6


def test_what_follows_the_point_of_a_branch_leaves_and_a_shorter_window_says_nothing() -> None:
    assert states(expecting(sync(ALL[:4]), sync([*ALL[:2], ALL[4]]))) == [KEEP] * 2 + [GONE] * 2 + [KEEP]
    assert states(expecting(sync(ALL[:4]), sync(ALL[:2]))) == [KEEP] * 2 + [EITHER] * 2


def test_a_reduction_leaves_the_words_of_the_row() -> None:
    cut = message(2, text="[truncated]", reduced=True)
    expected = expecting(sync(ALL), sync([*ALL[:2], cut, *ALL[3:]]))
    assert expected.units[2].words == ALL[2].words
    assert ("text", "[truncated]") in expected.wordings


def test_an_overlap_of_one_length_is_certain_and_of_two_is_open() -> None:
    ok = [message(number, "user", "ok") for number in (6, 7, 8)]
    assert undecidable(expecting(sync(ALL)), sync([*ALL[3:], ok[0]])) == 0
    assert undecidable(expecting(sync([ALL[0], *ok[:2]])), sync([*ok, ALL[1]])) == 2
    assert undecidable(expecting(sync([ALL[0], *ok[:2]])), sync([ALL[0], *ok])) == 0


# --- the hosts ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_that_of_its_seed_and_one_that_a_host_could_make(kind: str) -> None:
    run = make_run(kind, 3)
    assert run == make_run(kind, 3) != make_run(kind, 4)
    assert is_sane(run)
    assert sum(call.verb != "restart" for call in run.calls) > 1


@pytest.mark.parametrize("format_", ["openai-chat", "anthropic", "openclaw"])
def test_a_message_is_read_as_it_was_written(format_: str) -> None:
    thinking = "" if format_ == "openai-chat" else "hm"
    for words in (
        Words("user", "a"),
        Words("assistant", "b", (("c1", "sh", '{"cmd": "ls"}'),), thinking),
        Words("tool", "x", answers="c1"),
    ):
        assert read(write(words, format_)) == [words]


def test_a_run_is_told_a_line_a_message() -> None:
    run = Run("growing", 0, "openai-chat", tuple(sync(ALL[:count]) for count in (2, 4, 6)))
    with stage() as opened:
        played = play(opened, run)
    assert played.problems == []
    assert len(told(run, played).splitlines()) == 1 + 3 + 12

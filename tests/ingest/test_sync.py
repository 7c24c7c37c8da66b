"""What a host may show: replays, branches, notices, prompts, strangers. Each test is one rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lossless import Incoming, Session
from lossless.errors import NotFound
from lossless.model.context import NewSummary
from lossless.testing import VirtualClock
from tests.faults import SESSION, contents, context, open_engine, problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lossless
    from lossless.store.state import IngestState

Body = dict[str, Any]
CLOCK = VirtualClock()


@pytest.fixture(autouse=True)
def _verified(engine: lossless.Engine) -> Any:
    yield
    assert problems(engine) == []


def said(*texts: str) -> list[Body]:
    """`u: …`, `a: …`, `s: …` and `t1: …` (a result of call t1) as messages."""
    roles = {"u": "user", "a": "assistant", "s": "system"}
    bodies: list[Body] = []
    for text in texts:
        who, _, words = text.partition(": ")
        if who in roles:
            bodies.append({"role": roles[who], "content": words})
        else:
            bodies.append({"role": "tool", "tool_call_id": who, "content": words})
    return bodies


def named(entries: Sequence[str], *texts: str) -> list[Incoming]:
    return [Incoming(message, entry_id=entry) for entry, message in zip(entries, said(*texts), strict=True)]


def versions(engine: lossless.Engine, id_: int) -> list[str]:
    """The words that a row had or was shown in."""
    return [version.message.content for version in engine.archive.versions.of(id_)]


def state(engine: lossless.Engine) -> IngestState:
    conversation = engine.archive.conversations.find(SESSION)
    assert conversation is not None
    return engine.archive.ingest.state(conversation.id)


@pytest.mark.parametrize("count", [2, 4])
def test_another_chat_of_the_same_shape_replaces_nothing(engine: lossless.Engine, count: int) -> None:
    """A host that begins anew under the same key: as many messages by the same speakers, about something else."""
    deploy = said(
        "u: Where is the deploy key kept?", "a: In the vault, under ops.", "u: Who may read it?", "a: Two of us."
    )
    baking = said("u: How do I bake a good cake?", "a: Mix flour and six eggs.", "u: For how long?", "a: Half an hour.")
    engine.sync(SESSION, deploy[:count])
    report = engine.sync(SESSION, baking[:count])
    assert (report.stored, report.revised, report.cause) == (count, 0, "disjoint")
    assert contents(engine) == [message["content"] for message in deploy[:count] + baking[:count]]


def test_five_times_ok_is_five_rows(engine: lossless.Engine) -> None:
    """With ids, with keys, or in a growing window, within one second."""
    oks = ["u: ok"] * 5
    for n in range(1, 6):
        engine.sync(SESSION, said(*oks[:n]))
    assert contents(engine) == ["ok"] * 5
    other = Session(key="other")
    engine.append(other, named([f"e{n}" for n in range(5)], *oks))
    engine.append(other, named([f"e{n}" for n in range(5)], *oks))
    assert contents(engine, other) == ["ok"] * 5
    third = Session(key="third")
    for n in range(5):
        engine.append(third, said("u: ok"), key=f"turn {n}")
        engine.append(third, said("u: ok"), key=f"turn {n}")
    assert contents(engine, third) == ["ok"] * 5


def test_one_message_at_a_time_with_ids_is_no_rewritten_history(engine: lossless.Engine) -> None:
    for n in range(3):
        engine.sync(SESSION, named([f"e{n}"], "u: ok"))
    assert contents(engine) == ["ok"] * 3


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_with_the_words_that_it_came_with_is_a_no_op(engine: lossless.Engine) -> None:
    engine.append(SESSION, said("u: one"), key="turn-1")
    report = engine.append(SESSION, said("u: one"), key="turn-1")
    assert (report.stored, report.replayed) == (0, 1)
    assert engine.append(SESSION, said("u: two"), key="turn-1").stored == 1
    assert engine.sync(SESSION, said("u: one", "u: two"), key="turn-1").stored == 0
    assert engine.append(Session(key="other"), said("u: one"), key="turn-1").stored == 1


def test_each_result_of_a_call_is_stored(engine: lossless.Engine) -> None:
    """Whoever minted the id; the same words from the other producer are the same result."""
    engine.append(SESSION, said("call_0123456789ab: running", "exec:1: running"))
    engine.append(SESSION, said("call_0123456789ab: done", "exec:1: done"))
    assert contents(engine) == ["running", "running", "done", "done"]
    report = engine.append(SESSION, named(["e1"], "call_0123456789ab: running"))
    assert (report.stored, report.stamped) == (0, 1)


@pytest.mark.parametrize("verb", ["append", "sync"])
def test_ids_that_repeat_within_a_call_lose_no_message(engine: lossless.Engine, verb: str) -> None:
    window = [
        *named(["e1", "e1"], "u: first", "u: first, again"),
        *named(["e2", "e3"], "call_0123456789ab: out", "call_0123456789ab: more out"),
    ]
    assert getattr(engine, verb)(SESSION, window).stored == 4
    assert contents(engine) == ["first", "first, again", "out", "more out"]
    assert getattr(engine, verb)(SESSION, window).stored == 0


def test_an_event_key_at_its_place_is_the_same_event_under_a_new_id(engine: lossless.Engine) -> None:
    engine.sync(SESSION, named(["e1", "e2"], "u: q", "call_0123456789ab: out"))
    report = engine.sync(SESSION, named(["e1", "e9"], "u: q", "call_0123456789ab: [redacted]"))
    assert (report.stored, report.stamped) == (0, 1)
    assert contents(engine) == context(engine) == ["q", "out"]


def test_an_entry_id_decides_whatever_the_content_says(engine: lossless.Engine) -> None:
    engine.sync(SESSION, named(["e1", "e2"], "u: q", "a: answer"))
    report = engine.sync(SESSION, named(["e1", "e2"], "u: q", "a: something else altogether"))
    assert (report.stored, report.revised, report.likely) == (0, 1, 0)
    assert contents(engine) == ["q", "something else altogether"]
    report = engine.sync(SESSION, named(["e1", "e2"], "u: q", "u: another role"))
    assert (report.stored, report.revised) == (1, 0)


# --- branches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True])
def test_a_regenerated_reply_takes_the_place_of_the_old_one(engine: lossless.Engine, ids: bool) -> None:
    def show(*texts: str) -> None:
        engine.sync(SESSION, named(texts, *texts) if ids else said(*texts))

    show("u: q", "a: first", "u: more")
    show("u: q", "a: second")
    assert context(engine) == ["q", "second"]
    assert contents(engine) == ["q", "first", "more", "second"]
    show("u: q", "a: first", "u: more", "u: even more")
    assert context(engine) == ["q", "first", "more", "even more"]
    assert contents(engine) == ["q", "first", "more", "second", "even more"]
    show("u: q", "a: first")
    show("u: q", "a: first", "u: stop")
    assert context(engine) == ["q", "first", "stop"]
    log = engine.archive.database.rows("SELECT action, cause, removed, added FROM context_log ORDER BY log_id")
    assert [(row[0], row[1]) for row in log] == [("branch", "branch")] * 3
    assert log[0][2:] == ("[2, 3]", "[]")
    assert log[1][2:] == ("[4]", "[2, 3]")


def test_a_branch_that_was_folded_comes_back_below_its_summary(engine: lossless.Engine) -> None:
    """What is below a summary does not stand in the context a second time."""
    engine.sync(SESSION, said("u: q", "a: one", "u: two", "a: three"))
    items = engine.archive.context.items(1)[1:3]
    with engine.archive.writing():
        engine.archive.summaries.insert(1, items, NewSummary("sum_a", 0, "said", 1, "test"), CLOCK())
        engine.archive.context.replace(1, items, "sum_a", CLOCK())
    engine.sync(SESSION, said("u: q", "a: other"))
    assert context(engine) == ["q", "sum_a", "other"]
    engine.sync(SESSION, said("u: q", "a: one", "u: two", "a: three", "u: four"))
    assert context(engine) == ["q", "sum_a", "three", "four"]
    assert contents(engine) == ["q", "one", "two", "three", "other", "four"]


def test_an_old_window_deep_in_a_long_conversation_is_a_replay(engine: lossless.Engine) -> None:
    """Sliding windows, so that the archive is far longer than any of them."""
    log = [f"u: message {n} of many" for n in range(1_500)]
    for end in range(50, 1_501, 50):
        engine.sync(SESSION, said(*log[max(0, end - 60) : end]))
    for start in (0, 100, 777):
        report = engine.sync(SESSION, said(*log[start : start + 40]))
        assert (report.stored, report.cause) == (0, None)
    rewound = engine.sync(SESSION, said(*log[100:140], "u: let us go back"))
    assert (rewound.stored, rewound.cause, rewound.abandoned) == (1, "branch", 1_360)
    assert context(engine)[-2:] == ["message 139 of many", "let us go back"]


# --- what hosts do to their windows ---------------------------------------------------------------


def test_neighbours_that_were_redacted_are_the_same_messages(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("u: q", "x:1: long output one", "x:2: long output two", "a: done", "u: next"))
    window = said("u: q", "x:1: [cleared]", "x:2: [cleared]", "a: done", "u: next", "a: last")
    assert engine.sync(SESSION, window).stored == 1
    assert contents(engine)[1:3] == ["long output one", "long output two"]


def test_a_result_that_was_redacted_at_once_is_the_same_message(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("u: q", "x:1: long output"))
    report = engine.sync(SESSION, said("u: q", "x:1: [cleared]", "a: done"))
    assert (report.stored, report.abandoned) == (1, 0)


def test_a_text_that_was_put_into_a_file_is_the_same_message(engine: lossless.Engine) -> None:
    stub = (
        "look:\n[LCM File: file_0123456789abcdef | a.csv | text/csv | 24,627 bytes]\n\nExploration Summary:\n3 columns"
    )
    engine.append(SESSION, said("u: q", f"u: {stub}", "a: thanks"))
    assert engine.sync(SESSION, said("u: q", "u: look: <file>1,2,3</file>", "a: thanks", "u: and?")).stored == 1


def test_a_notice_at_the_head_does_not_make_a_window_a_stranger(engine: lossless.Engine) -> None:
    log = [f"u: message {n}" for n in range(12)]
    notice = "u: [earlier messages were left out]"
    engine.sync(SESSION, said(*log[:8]))
    assert engine.sync(SESSION, said(notice, *log[4:8])).stored == 1
    assert engine.sync(SESSION, said(notice, *log[6:10])).stored == 2
    assert engine.sync(SESSION, said(notice, *log[7:12])).stored == 2
    assert [text for text in contents(engine) if "left out" not in text] == [f"message {n}" for n in range(12)]


def test_a_window_without_its_middle_is_understood(engine: lossless.Engine) -> None:
    """First messages and last ones, with or without a notice in between."""
    log = [f"u: message {n}" for n in range(30)]
    engine.sync(SESSION, said(*log[:26]))
    assert engine.sync(SESSION, said(*log[:4], *log[20:27])).stored == 1
    assert engine.sync(SESSION, said(*log[:4], "u: [20 messages]", *log[22:28])).stored == 2
    report = engine.sync(SESSION, said(*log[:4], "u: [22 messages]", *log[24:30]))
    assert (report.stored, report.revised, report.abandoned) == (2, 1, 0)
    assert [text for text in contents(engine) if "messages]" not in text] == [f"message {n}" for n in range(30)]


def called(call: str) -> Body:
    function = {"name": "look", "arguments": "{}"}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call, "type": "function", "function": function}]}


def test_a_message_before_an_omitted_tool_round_is_known_when_it_is_shown_again(engine: lossless.Engine) -> None:
    """A window of six messages, from which old tool rounds are removed before it is cut."""
    texts = [(f"u: question {n} of the day", f"c{n}: found {n}", f"a: the answer {n} is long") for n in range(3)]
    rounds = [[*said(asked), called(found[:2]), *said(found, answer)] for asked, found, answer in texts]
    bare = [[turn[0], turn[-1]] for turn in rounds]
    engine.sync(SESSION, [*rounds[0], *rounds[1]])
    engine.sync(SESSION, [rounds[1][-1], *rounds[2]])
    last = said("u: and that is all for today")
    assert engine.sync(SESSION, [bare[0][1], *bare[1], *bare[2], *last]).stored == 1
    assert len(contents(engine)) == 13


def test_an_omitted_tool_round_leaves_with_the_branch_that_it_is_on(engine: lossless.Engine) -> None:
    turn = [*said("u: where is the cat"), called("c1"), *said("c1: in the hall", "a: it is in the hall")]
    engine.sync(SESSION, turn)
    engine.sync(SESSION, [turn[0], turn[-1], *said("u: and the dog", "a: in the yard")])
    assert engine.sync(SESSION, said("u: where is the black cat", "a: under the bed")).abandoned == 5
    assert context(engine) == ["where is the black cat", "under the bed"]


def test_the_same_question_after_another_branch_may_be_a_new_one(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    engine.sync(SESSION, said(*LOG[:2], "u: is it asleep", "a: it is"))
    assert engine.sync(SESSION, said(*LOG[:3], "a: in the kennel")).ambiguous == 1


def test_a_short_question_with_another_answer_may_be_asked_again(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG[:2], "u: ok", "a: it is fed now"))
    assert engine.sync(SESSION, said(*LOG[:2], "u: ok", "a: nobody has fed it")).ambiguous == 1


def test_a_short_last_question_after_another_answer_is_the_same_and_counted(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG[:3], "a: in the yard", "u: ok"))
    report = engine.sync(SESSION, said(*LOG[:3], "a: nobody has seen one for a week", "u: ok"))
    assert (len(report.message_ids), report.ambiguous) == (1, 1)


def test_a_short_answer_without_its_thinking_before_something_new_may_be_another_one(engine: lossless.Engine) -> None:
    thinking = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "ok"}]
    question, *rest = said("u: where is the cat now", "u: and who feeds the dog", "a: nobody does, I am afraid")
    engine.sync(SESSION, [question, {"role": "assistant", "content": thinking}, *rest])
    report = engine.sync(SESSION, [question, *said("a: ok", "u: no")])
    assert (len(report.message_ids), report.abandoned, report.ambiguous) == (1, 2, 1)


# --- edits ----------------------------------------------------------------------------------------

LOG = (
    "u: where is the cat",
    "a: on the mat in the hall",
    "u: and the dog",
    "a: in the yard",
    "u: who feeds them",
    "a: nobody does, I am afraid",
)
LINES = [text.partition(": ")[2] for text in LOG]


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("edit", ["something else altogether", None], ids=["all words", "one word"])
def test_a_row_takes_the_words_that_are_shown_at_its_place(
    engine: lossless.Engine, place: int, edit: str | None, grows: bool
) -> None:
    engine.sync(SESSION, said(*LOG))
    who, _, words = LOG[place].partition(": ")
    window = [*LOG, "u: one more"] if grows else [*LOG]
    window[place] = f"{who}: {edit or words.replace(words.split()[-1], 'bird')}"
    for stored, revised in ((int(grows), 1), (0, 0)):
        report = engine.sync(SESSION, said(*window))
        assert (report.stored, report.revised, report.abandoned) == (stored, revised, 0)
        assert contents(engine) == context(engine) == [text.partition(": ")[2] for text in window]
        assert versions(engine, place + 1) == [words]
    assert engine.sync(SESSION, said(*LOG)).revised == 1
    assert context(engine)[:6] == [text.partition(": ")[2] for text in LOG]


def test_an_edited_first_message_may_be_followed_by_other_ones(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    report = engine.sync(SESSION, said("u: look at the cat", LOG[1], "u: is it asleep"))
    assert (report.stored, report.revised, report.abandoned, report.cause) == (1, 1, 4, "branch")
    assert context(engine) == ["look at the cat", LINES[1], "is it asleep"]


def test_an_answer_may_be_deleted_after_a_decorated_message(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(f"{LOG[0]}\n\n<time>12:03</time>", *LOG[1:4]))
    engine.sync(SESSION, said(LOG[0], *LOG[2:]))
    assert context(engine) == [LINES[0], *LINES[2:]]


def test_an_exchange_may_be_deleted_after_an_edited_answer(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    engine.sync(SESSION, said(LOG[0], "a: on the mat in the kitchen", *LOG[4:]))
    assert context(engine) == [LINES[0], "on the mat in the kitchen", *LINES[4:]]


def test_a_longer_head_may_be_edited(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    report = engine.sync(SESSION, said("u: one", "a: two", "u: three", *LOG[3:]))
    assert (report.stored, report.revised) == (0, 3)
    assert contents(engine) == context(engine) == ["one", "two", "three", *LINES[3:]]
    assert [versions(engine, id_) for id_ in (1, 2, 3)] == [[text] for text in LINES[:3]]


def test_an_edit_below_a_summary_makes_it_stale(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    items = engine.archive.context.items(1)[:3]
    with engine.archive.writing():
        engine.archive.summaries.insert(1, items, NewSummary("sum_a", 0, "said", 1, "test"), CLOCK())
        engine.archive.context.replace(1, items, "sum_a", CLOCK())
    for revised in (1, 0):
        assert engine.sync(SESSION, said(LOG[0], "a: under the bed", *LOG[2:])).revised == revised
        assert context(engine) == ["sum_a", *LINES[3:]]
        assert contents(engine)[1] == "under the bed"
        assert engine.archive.database.rows("SELECT summary_id FROM stale_summaries") == [("sum_a",)]


def test_a_message_that_came_in_between_stands_in_between(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG))
    engine.sync(SESSION, said(*LOG[:2], "u: by the way", *LOG[2:]))
    assert context(engine)[1:4] == [LINES[1], "by the way", "and the dog"]


def test_many_messages_may_change_at_once(engine: lossless.Engine) -> None:
    """A host that tells the time beside each message brings no new message."""
    engine.sync(SESSION, said(*(f"u: message {n} of a long day, 1 minute ago" for n in range(9))))
    report = engine.sync(SESSION, said(*(f"u: message {n} of a long day, {2 - n // 8} minute ago" for n in range(9))))
    assert (report.stored, report.revised, report.abandoned) == (0, 8, 0)


def test_rows_of_another_producer_are_not_edited_away(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*LOG[:3]))
    engine.append(SESSION, said("u: from elsewhere", LOG[3]))
    report = engine.sync(SESSION, said(*LOG[:3], "u: from the host", *LOG[3:]))
    assert (report.stored, report.abandoned) == (3, 0)
    assert "from elsewhere" in context(engine)


def test_short_messages_move_on_before_a_newest_one_that_is_decorated(engine: lossless.Engine) -> None:
    log = ["a: yes", "u: go on", "a: done", "u: thanks"] * 2
    for n in range(3):
        engine.sync(SESSION, said(f"s: it is 12:0{n}", *log[n:], f"u: yes\n\n<time>12:0{n}</time>"))
    assert len(contents(engine)) == 1 + len(log) + 1


# --- notices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [400, 10, 9])
@pytest.mark.parametrize(
    "head", ["u: it is 12:{0:02}", "s: be kind|u: this is day {0}", "u: {0} left out|u: this is day {0}"]
)
def test_a_changing_notice_does_not_pile_up(engine: lossless.Engine, width: int, head: str) -> None:
    log = [f"{'ua'[n % 2]}: message {n}" for n in range(40)]
    for turn in range(1, 21):
        notices = head.format(turn).split("|")
        engine.sync(SESSION, said(*notices, *log[: 2 * turn][-width:]))
    assert context(engine) == [text.partition(": ")[2] for text in (*notices, *log)]
    assert len([text for text in contents(engine) if text.startswith("message")]) == 40


def test_a_notice_is_a_row_at_its_place_which_takes_its_newest_words(engine: lossless.Engine) -> None:
    log = [f"u: message {n}" for n in range(8)]
    ids = [f"e{n}" for n in range(8)]
    engine.sync(SESSION, named(ids[:6], *log[:6]))
    for text in ("old ones left out", "old ones left out", "more left out"):
        engine.sync(SESSION, [*said("s: be kind"), *named(["n"], f"u: {text}"), *named(ids[3:], *log[3:])])
        lines = [f"message {n}" for n in range(8)]
        assert context(engine) == ["be kind", *lines[:3], text, *lines[3:]]


def test_a_notice_in_place_of_the_middle_does_not_pile_up(engine: lossless.Engine) -> None:
    log = [f"u: message {n}" for n in range(40)]
    engine.sync(SESSION, said(*log[:30]))
    for end in range(32, 41, 2):
        engine.sync(SESSION, said(*log[:4], f"u: [{end - 12} more]", *log[end - 8 : end]))
    shown = context(engine)
    assert [text for text in shown if "more" in text] == ["[28 more]"]
    assert [text for text in shown if "more" not in text] == [f"message {n}" for n in range(40)]


# --- system prompts -------------------------------------------------------------------------------


def test_a_changed_prompt_takes_the_place_of_the_one_before(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("s: be kind", "u: q"))
    engine.sync(SESSION, said("s: be brief", "u: q", "a: r"))
    assert context(engine) == ["be brief", "q", "r"]
    engine.sync(SESSION, said("s: be kind", "s: be brief", "u: q", "a: r"))
    assert context(engine) == ["be kind", "be brief", "q", "r"]
    assert contents(engine) == ["be kind", "q", "be brief", "r"]


def test_a_prompt_that_comes_late_stands_at_the_head(engine: lossless.Engine) -> None:
    engine.append(SESSION, said("u: q"))
    for _ in range(2):
        engine.sync(SESSION, said("s: be kind", "s: be brief", "u: q", "a: r"))
        engine.append(SESSION, said("u: more"))
    assert context(engine)[:4] == ["be kind", "be brief", "q", "r"]


def test_a_prompt_that_was_said_in_the_middle_is_another_message(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("u: q", "s: mind the gap", "a: r"))
    engine.sync(SESSION, said("s: mind the gap", "u: q", "s: mind the gap", "a: r", "u: t"))
    assert context(engine) == ["mind the gap", "q", "mind the gap", "r", "t"]


def test_a_short_first_message_without_its_prompt_may_be_a_later_one(engine: lossless.Engine) -> None:
    """The window has lost its prompt, so it has moved on: the newest message in a frame is meant, not the first."""
    answer = "a: a long answer to no question at all"
    engine.sync(SESSION, said("s: be kind", "u: thanks", answer, "u: [Mon 2026-01-05 09:04 UTC]\nthanks"))
    report = engine.sync(SESSION, said("u: thanks", "a: you are welcome, as always", "u: and what comes next?"))
    assert (report.revised, report.ambiguous, len(report.message_ids)) == (1, 1, 2)
    assert contents(engine)[3] == "thanks"


def test_a_prompt_may_change_under_its_id(engine: lossless.Engine) -> None:
    for text in ("be kind", "be brief", "be kind"):
        engine.sync(SESSION, named(["p", "e1"], f"s: {text}", "u: q"))
        assert context(engine) == contents(engine) == [text, "q"]
    assert versions(engine, 1) == ["be brief"]


# --- strangers ------------------------------------------------------------------------------------


def test_a_window_with_nothing_in_common_is_stored_up_to_the_cap(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*(f"u: old {n}" for n in range(10))))
    report = engine.sync(SESSION, said(*(f"u: new {n}" for n in range(50))))
    assert (report.stored, report.cause, report.blocked) == (50, "disjoint", None)
    assert len(context(engine)) == 60


def test_a_flood_is_quarantined_until_somebody_decides(engine: lossless.Engine) -> None:
    window = said(*(f"u: old {n}" for n in range(10)))
    engine.sync(SESSION, window)
    flood = said(*(f"u: new {n}" for n in range(51)))
    report = engine.sync(SESSION, flood)
    assert (report.stored, report.cause, report.conversation_id) == (51, "disjoint", 1)
    assert "nothing in common" in (report.blocked or "")
    assert len(context(engine)) == 10
    assert engine.archive.listings.liveness().quarantined == (report.quarantine_id,) == (2,)
    assert engine.status(SESSION).quarantined == (2,)
    assert not engine.status(SESSION).is_healthy
    # the same one again, one that grew, and the end of it alone are known
    for again, stored in ((flood, 0), ([*flood, *said("u: one more")], 1), (flood[30:], 0)):
        report = engine.sync(SESSION, again)
        assert (report.stored, report.quarantine_id) == (stored, 2)
        assert report.blocked
    assert engine.sync(SESSION, window).blocked is None
    assert [one.messages for one in engine.transcripts.quarantined()] == [52]
    assert not engine.grep("one more", session=SESSION).hits
    assert engine.grep("one more", conversation_id=2).hits
    # another one is another conversation
    assert engine.sync(SESSION, said(*(f"u: other {n}" for n in range(60)))).quarantine_id == 3
    assert problems(engine) == []


def test_what_is_accepted_is_the_conversation_of_its_session(engine: lossless.Engine) -> None:
    window = said(*(f"u: old {n}" for n in range(10)))
    engine.sync(SESSION, window)
    flood = said(*(f"u: new {n}" for n in range(51)))
    engine.sync(SESSION, flood)
    assert engine.transcripts.accept_quarantined(2).active
    assert (engine.archive.conversations.get(1).archive_cause, engine.transcripts.quarantined()) == (
        "quarantine-accepted",
        [],
    )
    report = engine.sync(SESSION, [*flood, *said("u: go on")])
    assert (report.conversation_id, report.stored, report.blocked) == (2, 1, None)
    assert len(context(engine)) == 52
    assert engine.grep("old 3", session=SESSION).hits
    with pytest.raises(NotFound):
        engine.transcripts.accept_quarantined(2)
    assert problems(engine) == []


def test_what_is_refused_is_kept_and_never_shown(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said(*(f"u: old {n}" for n in range(10))))
    flood = said(*(f"u: new {n}" for n in range(51)))
    engine.sync(SESSION, flood)
    assert engine.transcripts.refuse_quarantined(2).decision == "refused"
    assert engine.status(SESSION).is_healthy
    report = engine.sync(SESSION, [*flood, *said("u: again")])
    assert (report.stored, report.quarantine_id) == (1, 2)
    assert "refused" in (report.blocked or "")
    assert len(context(engine)) == 10
    assert not engine.grep("again", session=SESSION).hits
    assert engine.transcripts.accept_quarantined(2).active  # somebody may think better of it
    assert problems(engine) == []


def test_a_long_conversation_takes_a_longer_stranger(engine: lossless.Engine) -> None:
    engine.append(SESSION, said(*(f"u: old {n}" for n in range(400))))
    assert engine.sync(SESSION, said(*(f"u: new {n}" for n in range(81)))).quarantine_id == 2
    assert engine.sync(SESSION, said(*(f"u: strange {n}" for n in range(80)))).stored == 80
    assert len(context(engine)) == 480


def test_the_counters_add_up(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("s: p", "u: a", "u: b"))
    engine.sync(SESSION, said("s: p", "u: a", "u: b", "u: c"))
    engine.sync(SESSION, said("u: b"))
    engine.append(SESSION, [*said("u: d"), {"role": "ping"}])
    found = state(engine)
    assert (found.seen, found.stored, found.replayed, found.skipped) == (7, 5, 1, 1)


def test_a_restart_forgets_nothing(engine: lossless.Engine) -> None:
    engine.sync(SESSION, said("u: ok", "u: ok"))
    with open_engine(engine.archive.path) as again:
        assert again.sync(SESSION, said("u: ok", "u: ok")).stored == 0
        assert again.sync(SESSION, said("u: ok", "u: ok", "u: ok")).stored == 1


FRAME = 'Conversation info (untrusted metadata):\n```json\n{"chat": "x", "message_id": "1"}\n```\n\n'


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ((f"u:{FRAME}hello|u:{FRAME}ok|u:{FRAME}ok", f"u:{FRAME}ok|u:{FRAME}ok"), 3),
        (("u:ok|u:ok\n", "u:ok\n|u:ok\n"), 3),
        (("u:yes|u:yes please", "u:yes please|u:yes please"), 3),
        (("u:hi|a:x|u:hello there", f"a:x|u:{FRAME}hello there", f"a:x|u:{FRAME}hello there|a:yes"), 4),
        (("u:ab|a:b|u:c|u:d|u:ab|u:ok", "u:ab|u:ok|u:c|u:d|u:c|u:ok", "u:ok|u:c|u:d|u:c|u:ok"), None),
    ],
)
def test_what_slides_over_look_alikes_is_stored_once(
    engine: lossless.Engine, windows: tuple[str, ...], expected: int | None
) -> None:
    for window in windows:
        roles = {"u": "user", "a": "assistant"}
        said = [{"role": roles[one[0]], "content": one[2:]} for one in window.split("|")]
        report = engine.sync(SESSION, said)
        again = engine.sync(SESSION, said)
        assert (again.stored, report.abandoned) == (0, 0)
    if expected is not None:
        assert len(contents(engine)) == expected


def test_the_end_of_a_window_shown_again_is_not_the_last_window(engine: lossless.Engine) -> None:
    window: list[Any] = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "a"}]}]
    for shown in (window, window[1:], window):
        engine.sync(SESSION, shown)
    assert contents(engine) == ["a", "a"]


def test_a_window_of_the_newest_message_alone_is_known_whoever_stored_it(engine: lossless.Engine) -> None:
    first, second = said("a: the ship sails at noon tomorrow", "a: and it is back on Friday evening, at six")
    engine.sync(SESSION, [first])
    engine.append(SESSION, [Incoming(second, entry_id="x1")])
    report = engine.sync(SESSION, [second])
    assert (report.stored, report.replayed) == (0, 1)

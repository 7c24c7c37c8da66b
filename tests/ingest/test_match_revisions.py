"""Words that differ are never dropped: what a host shows in other words, from the window to the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.ingest import decorated_share
from lossless import Incoming, Session
from tests.faults import (
    SESSION,
    all_or_nothing,
    contents,
    context,
    problems,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import lossless

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def _verified(engine: lossless.Engine) -> Iterator[None]:
    yield
    assert problems(engine) == []


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def answer(text: str) -> Body:
    return {"role": "assistant", "content": text}


def system(text: str) -> Body:
    return {"role": "system", "content": text}


def calls(call: str) -> Body:
    function = {"name": "run", "arguments": '{"command": "make"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }


def result(call: str, text: str) -> Body:
    return {"role": "tool", "tool_call_id": call, "content": text}


def prompt(engine: lossless.Engine, session: Session = SESSION) -> list[str]:
    """The texts that a model is given."""
    messages = engine.assemble(session, allow_trailing_assistant=True).messages
    return [str(message["content"]) for message in messages if message.get("content")]


def versions(engine: lossless.Engine, id_: int) -> list[str]:
    return [version.message.content for version in engine.archive.versions.of(id_)]


CALL = "call_0123456789ab"
TALK = [
    user("Do not push to main before the tests have passed"),
    answer("I will wait for the tests, then push the branch."),
    user("How long will the tests take on this machine?"),
    answer("About twenty minutes from alpha to beta, 5000 of them."),
]


# --- results under one call id --------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["append", "sync"])
@pytest.mark.parametrize("call", [CALL, "toolu_0123456789abcdef", "exec:1"])
def test_two_results_under_one_call_id_are_two_rows(engine: lossless.Engine, verb: str, call: str) -> None:
    window = [user("build it"), calls(call), result(call, "compiling"), result(call, "linked: 3 files")]
    assert getattr(engine, verb)(SESSION, window).stored == 4
    assert contents(engine)[2:] == ["compiling", "linked: 3 files"]
    assert engine.sync(SESSION, window).stored == 0


def test_a_call_id_that_is_used_again_later_is_another_call(engine: lossless.Engine) -> None:
    window: list[Body] = []
    for n in range(4):
        window += [user(f"build number {n}, please"), calls(CALL), result(CALL, f"built number {n}")]
        assert engine.sync(SESSION, window).stored == 3
    assert [text for text in contents(engine) if text.startswith("built")] == [f"built number {n}" for n in range(4)]


# --- edits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True], ids=["no ids", "ids"])
@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (0, "Do not push", "push"),
        (0, "Do not push to main before the tests have passed", "Something else altogether"),
        (2, "machine?", "machine!"),
        (3, "from alpha to beta", "from beta to alpha"),
        (3, "5000", "50"),
    ],
)
def test_the_prompt_has_the_newest_words(engine: lossless.Engine, place: int, old: str, new: str, named: bool) -> None:
    def show(window: list[Body]) -> Any:
        names = [Incoming(body, entry_id=f"e{n}") for n, body in enumerate(window)]
        return engine.sync(SESSION, names if named else window)

    window = [*TALK, user("Tell me when they are through, will you?")]
    show(window)
    before = window[place]["content"]
    window[place] = window[place] | {"content": before.replace(old, new)}
    report = show(window)
    assert (report.stored, report.revised) == (0, 1)
    assert prompt(engine) == [body["content"] for body in window]
    assert versions(engine, place + 1) == [before]
    assert show(window).revised == 0


def test_several_edits_at_once(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [*TALK, user("and then?")])
    window = [TALK[0], answer("No."), user("Why is that so?"), TALK[3], user("and then?")]
    report = engine.sync(SESSION, window)
    assert (report.stored, report.revised) == (0, 2)
    assert prompt(engine) == [body["content"] for body in window]
    assert [versions(engine, id_) for id_ in (2, 3)] == [[TALK[1]["content"]], [TALK[2]["content"]]]


def test_a_system_message_in_the_middle_may_change(engine: lossless.Engine) -> None:
    for text in ("The user is away until noon.", "The user is back at the desk."):
        window = [*TALK[:2], system(text), *TALK[2:]]
        engine.sync(SESSION, window)
        assert context(engine) == [body["content"] for body in window]


def test_a_reduction_is_kept_beside_the_row(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [user("build it"), calls(CALL), result(CALL, "a long log"), *TALK])
    window = [user("build it"), calls(CALL), result(CALL, "[cleared]"), *TALK]
    assert engine.sync(SESSION, window).revised == 0
    assert contents(engine)[2] == "a long log"
    (version,) = engine.archive.versions.of(3)
    assert (version.kind, version.message.content) == ("lesser", "[cleared]")


def test_a_placeholder_of_the_host_is_known_from_earlier_windows(engine: lossless.Engine) -> None:
    """Rule: one text for several results is a reduction, also when they were replaced one after the other."""
    rounds = [[calls(f"{CALL}{n}"), result(f"{CALL}{n}", f"log number {n}")] for n in range(3)]
    engine.sync(SESSION, [user("build all"), *rounds[0], *rounds[1], *rounds[2], *TALK])
    cut = [[call, done | {"content": "(not here)"}] for call, done in rounds]
    engine.sync(SESSION, [user("build all"), *cut[0], *cut[1], *rounds[2], *TALK])
    report = engine.sync(SESSION, [user("build all"), *cut[0], *cut[1], *cut[2], *TALK])
    assert (report.stored, report.revised) == (0, 0)
    assert [text for text in prompt(engine) if "log" in text] == [f"log number {n}" for n in range(3)]


# --- pending results ------------------------------------------------------------------------------


@pytest.mark.parametrize("grows", [False, True])
def test_a_result_that_was_pending_has_its_final_words(engine: lossless.Engine, grows: bool) -> None:
    head = [user("build it"), calls(CALL)]
    engine.sync(SESSION, [*head, result(CALL, "(running…)")])
    report = engine.sync(SESSION, [*head, result(CALL, "done: 3 files"), *([answer("It is built.")] if grows else [])])
    assert (report.stored, report.revised) == (int(grows), 1)
    assert contents(engine)[2] == "done: 3 files"
    assert "(running…)" not in prompt(engine)
    assert versions(engine, 3) == ["(running…)"]


# --- repeats and returns --------------------------------------------------------------------------


def test_a_window_may_begin_with_a_shortened_result(engine: lossless.Engine) -> None:
    window = [user("Make it now, please"), calls(CALL), result(CALL, "All 93 targets were built"), *TALK]
    engine.sync(SESSION, window)
    moved = [result(CALL, "[cleared]"), *TALK, user("And now the next one, please")]
    assert engine.sync(SESSION, moved).stored == 1
    again = [calls(CALL), *moved]  # a message more in front of it
    assert engine.sync(SESSION, again).stored == 0
    assert context(engine)[:3] == ["Make it now, please", "", "All 93 targets were built"]


@pytest.mark.parametrize(
    ("half", "whole"), [("half \ud83d", "half \U0001f600 of it"), ("half \ud83d of", "half \ud83d of it")]
)
def test_half_a_character_does_not_hide_a_message(engine: lossless.Engine, half: str, whole: str) -> None:
    """SQLite cannot store a lone surrogate; what is compared is what it stores."""
    engine.sync(SESSION, [*TALK, user(half), user("and the other half")])
    merged = user(f"{half}\n\nand the other half")
    assert engine.sync(SESSION, [*TALK, merged, answer(half)]).stored == 1
    assert engine.sync(SESSION, [*TALK, merged, answer(whole)]).stored == 0
    assert contents(engine)[-1] == whole.replace("\ud83d", "\ufffd")


def test_repeated_short_answers_in_moving_windows_are_kept_or_counted(engine: lossless.Engine) -> None:
    log = [user("yes") if n % 2 else answer("Shall I go on?") for n in range(20)]
    missing = sum(engine.sync(SESSION, log[max(0, end - 6) : end]).ambiguous for end in range(2, 21, 2))
    assert len(contents(engine)) + missing >= 20
    assert len(contents(engine)) <= 20


def test_a_regenerated_text_that_equals_an_abandoned_one_is_kept_or_counted(engine: lossless.Engine) -> None:
    for reply in ("It is 8080, I think.", "Let me look at the file first.", "It is 8080, I think."):
        report = engine.sync(SESSION, [user("Which port is it?"), answer(reply)])
        assert report.stored or report.ambiguous
        assert context(engine)[-1] == reply


# --- hosts that save room or decorate -------------------------------------------------------------


def test_old_tool_rounds_that_are_left_out_double_nothing(engine: lossless.Engine) -> None:
    def turn(n: int, *, whole: bool) -> list[Body]:
        call = f"call_{n:012}"
        tools = [calls(call), result(call, f"the log of build {n}")] if whole else []
        return [user(f"Please make build {n} now"), *tools, answer(f"Build {n} has been made.")]

    for end in range(1, 9):
        window = [body for n in range(end) for body in turn(n, whole=n > end - 3)]
        report = engine.sync(SESSION, window)
        assert (report.stored, report.abandoned) == (4, 0)
    assert len(contents(engine)) == len(context(engine)) == 32


@pytest.mark.parametrize(
    "decorate",
    [
        lambda text, n: f"[Mon 12:{n:02}] {text}",
        lambda text, n: f"<context>\ndocument {n} of the shelf\n</context>\n\n{text}",
        lambda text, n: f"{text}\n\n<system-reminder>\nturn {n} has begun\n</system-reminder>",
    ],
    ids=["time", "documents", "reminder"],
)
def test_a_decorated_newest_message_is_one_row(engine: lossless.Engine, decorate: Callable[[str, int], str]) -> None:
    log: list[Body] = []
    for n in range(12):
        asked = f"Question {n} about the harbour and its {n} boats"
        report = engine.sync(SESSION, [*log, user(decorate(asked, n))])
        assert (report.stored, report.abandoned) == (1 + bool(n), 0)
        log += [user(asked), answer(f"Answer {n}, which is rather short.")]
    engine.sync(SESSION, log)
    assert contents(engine) == context(engine) == [body["content"] for body in log]
    assert versions(engine, 1) == [decorate(log[0]["content"], 0)]
    (logged,) = engine.browse.context_sizes(1, 9)  # consecutive revisions share an entry
    assert (logged.action, logged.tokens_after) == ("revise", engine.archive.context.tokens(1))


def test_a_trailing_system_message_does_not_pile_up(engine: lossless.Engine) -> None:
    log: list[Body] = []
    for n in range(8):
        log += [user(f"Question {n} about the harbour"), answer(f"Answer {n}, which is rather short.")]
        engine.sync(SESSION, [*log, system(f"It is {n} past noon.")])
        assert context(engine) == [*(body["content"] for body in log), f"It is {n} past noon."]
    assert len([text for text in contents(engine) if "noon" not in text]) == 16


FERRY = [
    user("Where does the ferry of 9 leave tomorrow?"),
    answer("It leaves from the northern pier."),
    user("Please book two seats. The children come along."),
    answer("Done."),
    user("thanks"),
    answer("You are welcome, and enjoy the trip."),
]


def test_a_translation_after_a_decorated_message_is_versions(engine: lossless.Engine) -> None:
    """Very short texts are unchanged, and the time before the newest message has numbers of its own."""
    engine.sync(SESSION, FERRY[:-2])
    engine.sync(SESSION, [*FERRY[:-2], user(f"[10:17] {FERRY[4]['content']}"), FERRY[5]])
    told = ["Von wo fährt die Fähre um 9 morgen ab?", "Sie fährt vom nördlichen Kai ab."]
    told += ["Bitte buche zwei Plätze. Die Kinder kommen mit.", "Done.", "thanks", "Bitte sehr, und viel Spaß dabei."]
    asked = [one | {"content": text} for one, text in zip(FERRY, told, strict=True)]
    engine.sync(SESSION, [*asked, user("Wie lange fährt sie?")])
    assert prompt(engine) == [*told, "Wie lange fährt sie?"]
    assert len(contents(engine)) == 7


def test_a_message_that_is_split_and_moved_is_its_row(engine: lossless.Engine) -> None:
    engine.sync(SESSION, FERRY)
    pieces = [user("Please book two seats."), user("The children come along.")]
    engine.sync(SESSION, [*pieces, FERRY[3], *FERRY[:2], *FERRY[4:], user("How long does it take?")])
    assert len(contents(engine)) == 7


def test_texts_that_a_host_strips_later_are_their_rows(engine: lossless.Engine) -> None:
    """Rule: a text without the spaces around it is its row, also a very short one after others that were stripped."""
    engine.sync(SESSION, [user("Look at the log of the last run \n"), calls("call_1f"), result("call_1f", "ok ")])
    report = engine.sync(SESSION, [user("Look at the log of the last run"), calls("call_1f"), result("call_1f", "ok")])
    assert (report.stored, report.revised) == (0, 2)
    assert contents(engine) == ["Look at the log of the last run", "", "ok"]


def test_very_short_texts_after_a_summary_of_the_host_are_their_rows(engine: lossless.Engine) -> None:
    """Rule: what the rows end with is known behind one new message, also where each of its texts may be repeated."""
    engine.sync(SESSION, [user("Sort the list of ferries by harbour"), answer("go on"), user("ok"), answer("go on")])
    report = engine.sync(SESSION, [answer("We sorted ferries."), user("ok"), answer("go on"), user("What is next?")])
    assert report.stored == 2
    assert contents(engine).count("go on") == 2


def test_a_streamed_message_is_one_row(engine: lossless.Engine) -> None:
    words = " ".join(f"word{n}" for n in range(30))
    for end in range(20, len(words) + 1, 10):
        engine.sync(SESSION, [user("Tell me a story"), answer(words[:end])])
    assert contents(engine) == ["Tell me a story", words[:end]]


# --- hosts that rewrite all that they show --------------------------------------------------------


def unpunctuated(text: str) -> str:
    return "".join(sign for sign in text if sign.isalnum() or sign.isspace()) or text


def masked(text: str) -> str:
    return " ".join("[NAME]" + word[-1:] if word[:1].isupper() else word for word in text.split(" "))


HARBOUR = [
    body
    for n in range(9)
    for body in (
        user(f"What's the name of quay {n * 7}? Anna can't find it on her chart, and it isn't in the book of Piet."),
        answer("Sure." if n % 3 == 1 else f"Quay {n * 7} is called Elbe {n * 11}; it's behind the house of Marie."),
    )
]


@pytest.mark.parametrize("size", [6, 99])
@pytest.mark.parametrize("change", [unpunctuated, masked, str.lower, lambda text: text.replace("'", "&#x27;")])
def test_a_host_that_rewrites_every_other_window_doubles_nothing(
    engine: lossless.Engine, change: Callable[[str], str], size: int
) -> None:
    """Rule: the longer messages of the last window are known in other words, and so is what is between them."""
    for end in range(2, 17, 2):
        window = HARBOUR[max(0, end - size) : end]
        shown = [one | {"content": change(one["content"])} for one in window] if end % 4 else window
        assert engine.sync(SESSION, shown).stored == 2
    assert prompt(engine)[-len(shown) :] == [one["content"] for one in shown]
    assert len(contents(engine)) == 16


def test_a_long_text_that_is_cut_near_its_beginning_is_its_row(engine: lossless.Engine) -> None:
    long = user(f"Please read the log of the harbour: {'a ship comes in, a ship goes out, ' * 40}and that was all.")
    engine.sync(SESSION, [long])
    cut = user(f"{long['content'][:50]}... [truncated]")
    assert engine.sync(SESSION, [cut, answer("It is a busy harbour.")]).stored == 1
    assert contents(engine) == [long["content"], "It is a busy harbour."]


def test_a_message_that_is_split_and_edited_is_its_row(engine: lossless.Engine) -> None:
    engine.sync(SESSION, FERRY)
    pieces = [user("Please do book two seats."), user("The children not come along.")]
    assert engine.sync(SESSION, [*FERRY[:2], *pieces, *FERRY[3:], user("How long does it take?")]).stored == 1


def test_messages_that_are_merged_at_the_beginning_are_their_rows(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [user("Sure."), user("Go on"), answer("Done."), user("Where is the pier?"), user("ok")])
    merged = [user("Sure.\n\nGo on"), answer("Done."), user("Where is the pier?\n\nok"), answer("In the north.")]
    assert engine.sync(SESSION, merged).stored == 1


def test_another_result_of_the_same_call_before_another_answer_is_counted(engine: lossless.Engine) -> None:
    """Rule: the call may have been made again, or its result corrected; content cannot tell."""
    asked = [user("Where is the log of the last run?"), calls(CALL)]
    engine.sync(SESSION, [*asked, result(CALL, "two files were found"), answer("There are two of them.")])
    report = engine.sync(SESSION, [*asked, result(CALL, "nothing in this folder"), answer("I cannot find any.")])
    assert (report.stored, report.revised, report.ambiguous) == (1, 1, 1)
    assert prompt(engine)[1:] == ["nothing in this folder", "I cannot find any."]


@pytest.mark.parametrize(("word", "open_"), [("no", 1), ("no 7", 0)])
def test_a_few_words_at_the_seam_of_two_windows_are_counted(engine: lossless.Engine, word: str, open_: int) -> None:
    """Rule: they may have been said again, unless a number makes them their own."""
    engine.sync(SESSION, [*TALK, user(word)])
    report = engine.sync(SESSION, [user(word), *FERRY[1:]])
    assert (report.stored, report.ambiguous) == (5, open_)


# --- faults ---------------------------------------------------------------------------------------


def _edited(engine: lossless.Engine) -> object:
    window = [user("push to main before the tests have passed"), *TALK[1:3], answer("Ten minutes."), user("Go on then")]
    return engine.sync(SESSION, window)


def _reduced(engine: lossless.Engine) -> object:
    return engine.sync(SESSION, [TALK[0], answer("[cleared]"), *TALK[2:]])


@pytest.mark.parametrize("act", [_edited, _reduced])
def test_a_failing_statement_leaves_old_or_new_words(act: Callable[[Any], object], tmp_path: Path) -> None:
    before, after = all_or_nothing(tmp_path, lambda engine: engine.sync(SESSION, TALK), act)
    assert before["message_versions"] != after["message_versions"]


def test_the_archive_of_a_host_that_decorates_its_newest_message_is_small() -> None:
    """At most 1.3 times the plain archive and the decorations themselves, once free room is given back."""
    assert decorated_share(60)[1] <= 1.3

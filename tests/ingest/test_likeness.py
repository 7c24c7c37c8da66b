"""Two wordings of one message: tables of what a host's reduction is, what an edit, and what is alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import formats
from lossless.ingest.likeness import (
    are_rewritten,
    contains_all,
    is_contained,
    is_gap_mark,
    is_reduction,
    is_short,
    may_be_same,
    score_likeness,
)
from lossless.ingest.match import ALIKE

if TYPE_CHECKING:
    from lossless.model.messages import Message


def message(text: Any, role: str = "user", **more: Any) -> Message:
    return formats.decode({"role": role, "content": text, **more})


def result(text: str, call: str = "call_0123456789ab") -> Message:
    return message(text, "tool", tool_call_id=call)


def calling(text: str | None = None, call: str = "call_0123456789ab", arguments: str = "{}") -> Message:
    function = {"name": "run", "arguments": arguments}
    return message(text, "assistant", tool_calls=[{"id": call, "type": "function", "function": function}])


LONG = " ".join(f"word{n}" for n in range(60))
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * 60}}


@pytest.mark.parametrize(
    "shown",
    [
        "[cleared]",
        "<redacted/>",
        "[Old tool result content cleared]",
        "(output omitted)",
        "***",
        "Output truncated.",
        LONG[:80] + "…",
        LONG[:80] + "... [truncated]",
        LONG[:80] + "\n[... 41 more lines ...]\n" + LONG[-60:],
        LONG[:80] + "\n\n300 characters truncated\n\n" + LONG[-60:],
        LONG.replace("word7 ", "[REDACTED] "),
        "",
    ],
)
def test_a_mark_of_the_host_is_a_reduction(shown: str) -> None:
    assert is_reduction(result(LONG), result(shown))


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("Do not push to main", "push to main"),
        ("from alpha to beta", "from beta to alpha"),
        ("Ship it?", "Ship it!"),
        ("at most 5000 rows", "at most 50 rows"),
        (LONG, LONG[:200]),
        ("(running…)", "done: 3 files"),
        ("done: 3 files", "(running…)"),
        ("wait for it", "wait for it…"),
        ("wait for the build and the tests", "wait for…"),
        ("see [omitted] there", "[omitted]"),
        ("[3 messages omitted]", "[4 messages omitted]"),
        ("old ones left out", "more left out"),
        ("", "[cleared]"),
        (LONG, LONG + " [truncated]"),
        ("Fix the parser of the long configuration files", "Fix the truncation"),
        (f"Tell me all:\n{LONG}", "Tell me all:\nof the lines that were omitted"),
        ("Say it in a few words of your own, please", "Say it in a few words (clear ones), please"),
        ("I see why it fails: the text is truncated.", "I SEE WHY IT FAILS: THE TEXT IS TRUNCATED."),
    ],
)
def test_fewer_words_another_order_and_other_signs_are_edits(stored: str, shown: str) -> None:
    assert not is_reduction(message(stored), message(shown))


def test_a_text_that_stands_for_several_results_is_a_reduction() -> None:
    assert is_reduction(result("one"), result("old result"), stands_for_several=True)
    assert not is_reduction(result("one"), result("one"), stands_for_several=True)
    assert not is_reduction(result("one"), result("old result"))


def test_an_empty_result_is_a_result_and_a_known_placeholder_is_none() -> None:
    assert is_reduction(result(""), result("[Old tool result content cleared]"))
    assert not is_reduction(result("(running…)"), result(""))
    assert not is_reduction(result("\n<system-reminder>\nBe kind.\n</system-reminder>"), result(""))


def test_the_beginning_of_a_text_with_an_ellipsis_is_a_cut() -> None:
    text = "Joined a travel club and, like I said, working on my studies as well."
    assert is_reduction(message(text), message(f"{text[:50]}..."))
    assert not is_reduction(message(text), message(f"{text[:20]}..."))


def test_arguments_are_values_and_case_and_labels_are_a_frame() -> None:
    assert score_likeness(calling("", "exec:1", '{"path":"x"}'), calling("", "exec:1", '{\n  "path": "x"\n}')) == 1.0
    assert score_likeness(message("Sure."), message("sure.")) == 1.0
    assert score_likeness(message("Sure."), message("John: Sure.")) == 1.0


def test_a_payload_that_is_gone_or_named_is_a_reduction() -> None:
    text = {"type": "text", "text": "look"}
    stored = message([text, PICTURE])
    assert is_reduction(stored, message("look"))
    assert is_reduction(stored, message("look [image]"))
    assert not is_reduction(stored, message("look at something else"))
    assert not is_reduction(stored, message([text, PICTURE]))


@given(st.text(max_size=60), st.text(max_size=60))
def test_words_without_any_mark_are_no_reduction(stored: str, shown: str) -> None:
    """Rule: a reduction needs a mark; letters, digits and spaces alone are none."""
    plain = "".join(char for char in shown if char.isalnum() or char == " ") or "x"
    if "xxx" not in plain.lower():
        assert not is_reduction(message(stored), message(plain))


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("Do not push to main", "Push to main, please do not wait"),
        ("from alpha to beta", "from beta to alpha"),
        ("which port does the proxy use", "which port does the gateway use"),
        ("hello there", "[12:03] hello there"),
        ("hello there", "<context>\nthree documents\n</context>\nhello there"),
        ("yes", "Today is day 3\nQuestion: yes"),
        ("hello\n\n(sent at 10:03)", "hello\n\n(sent at 10:04)"),
        (f"Use these documents:\n{LONG}\n\nQuestion: who is it", "Use these documents:\n-\n\nQuestion: who is it"),
        ("caf\u00e9 au lait", "cafe\u0301 au lait"),
        ("a < b and b < c", "a &lt; b and b &lt; c"),
        ("今日は天気がいい", "今日も天気がいい"),
        ("Take HAT110 from ATL to EWR with Option One.", "take hat110 from atl to ewr with option one."),
    ],
)
def test_alike(stored: str, shown: str) -> None:
    assert score_likeness(message(stored), message(shown)) >= ALIKE
    assert score_likeness(message(shown), message(stored)) >= ALIKE


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("which port does the proxy use", "write a poem about the sea"),
        ("ok", "ok, then let us begin with the second part of the work"),
        ("yes", "no"),
        ("no", "ono"),
        (f"<documents>{LONG}</documents>\nwho is it", f"<documents>{LONG}</documents>\nwhen does it start"),
        ("go on\n\n(sent at 10:03)", "thanks\n\n(sent at 10:04)"),
        ("", "anything"),
    ],
)
def test_unlike(stored: str, shown: str) -> None:
    assert score_likeness(message(stored), message(shown)) < ALIKE


def test_role_and_calls_decide_before_words() -> None:
    assert score_likeness(message("same words"), message("same words", "assistant")) == 0
    assert score_likeness(result("(running…)"), result("done")) == 1
    assert score_likeness(result("same", "call_a"), result("same", "call_b")) == 0
    assert not may_be_same(calling(call="call_a"), calling(call="call_b"))
    assert score_likeness(calling("first"), calling("second")) == 1
    assert score_likeness(calling(arguments='{"a": 1}'), calling(arguments='{"a": 2}')) < 1
    assert score_likeness(message("stream", "assistant"), message("streaming on", "assistant")) == 0.9
    assert score_likeness(message("a stream of words", "assistant"), message("a stream of words on", "assistant")) == 1
    done = message("Great, everyone came together for this cause. It was a success.", "assistant")
    assert score_likeness(done, calling("You are right: everyone came together for this cause. I look it up.")) == 0


def test_the_words_beside_a_picture_decide() -> None:
    row = message("[10:27] sure\n[User image: user-image.png (image/png, 60 bytes) | LCM file: file_0123456789abcdef]")
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'AAAA' * 20}"}}

    def shown(text: str) -> Message:
        return formats.decode({"role": "user", "content": [{"type": "text", "text": text}, picture]})

    assert score_likeness(row, shown("sure")) == 1.0
    assert score_likeness(row, shown("Something else")) < ALIKE


def test_a_short_text_beside_a_call_proves_nothing() -> None:
    """It may be the beginning of an answer that then calls; then its place decides."""
    assert score_likeness(calling("ok."), message("ok.", "assistant")) == 0.0
    assert ALIKE <= score_likeness(message("ok.", "assistant"), calling("ok.")) < 1.0
    text = "I look into the first folder of it."
    assert score_likeness(calling(text), message(text, "assistant")) == 1.0
    assert score_likeness(message("", "assistant"), calling("")) == 0.0  # of thinking alone


def test_a_call_under_an_id_that_is_used_again_is_told_by_its_arguments() -> None:
    one, other = (calling("", "functions.sh:0", f'{{"cmd": "{cmd}"}}') for cmd in ("ls", "git status --short"))
    assert score_likeness(one, other) < ALIKE
    assert score_likeness(one, calling("", "functions.sh:0", '{"cmd": "ls -l"}')) >= ALIKE


@pytest.mark.parametrize(
    ("mine", "theirs", "least"),
    [
        ("<context>\na chart\n</context>\n\nGo ahead", "Go ahead\n\nCurrent time: 09:48", 1.0),
        (
            "Use these:\n- a chart\n\nQuestion: Where is the pier?",
            "Use these:\n- tides\n\nQuestion: Where is the pier?",
            0.9,
        ),
        (LONG, LONG[:30] + "... [truncated]", 0.9),
        ("Anna can't see Piet from her quay", "[NAME] can't see [NAME] from her quay", 0.9),
        ("Yes", "[NAME].", ALIKE),
    ],
)
def test_frames_and_labels_leave_a_message_alike(mine: str, theirs: str, least: float) -> None:
    assert score_likeness(message(mine), message(theirs)) >= least
    assert score_likeness(message(theirs), message(mine)) >= least


def test_pieces_with_other_words() -> None:
    whole = message("Please book two seats for Monday. The children come along, and so does the dog.")
    parts = [message("Please do book two seats for Monday."), message("The children come, and so does the dog.")]
    assert is_contained(parts, whole)
    assert not is_contained(parts[::-1], whole)
    assert not is_contained([whole, message("And what does it cost?")], whole)


def test_merged_split_and_rewritten() -> None:
    parts = [message("first part of it"), message("second part of it")]
    whole = message("first part of it\n\nsecond part of it")
    assert contains_all(whole, parts)
    assert not contains_all(whole, parts[::-1])
    assert is_contained(parts, whole)
    assert not is_contained([parts[0], message("x")], whole)
    pairs = [
        ("how do I open file 12", "wie kann ich Datei 12 öffnen"),
        ("with a text editor", "mit einem Texteditor"),
    ]
    assert are_rewritten([(message(mine), message(theirs)) for mine, theirs in pairs])
    moved_on = [(message("ok"), message(LONG)), *((message(LONG), message(LONG)) for _ in range(3))]
    assert not are_rewritten(moved_on)
    assert not are_rewritten([(message("short as a line"), message(LONG)), (message(LONG), message("a line is here"))])


def test_gap_marks_and_short_messages() -> None:
    assert is_gap_mark(message("[12 earlier messages omitted]"))
    assert not is_gap_mark(message("I omitted a word"))
    assert is_short(message("thanks"))
    assert not is_short(calling("ok"))


def test_a_phrase_of_a_script_without_spaces_weighs_as_its_words_do() -> None:
    phrase = "日本語のテスト 한국어 ไทย"
    one = f"Remove daemon binary without carbon oasis under balcony near thread {phrase} because of whisper 131 charter"
    other = f"Move diesel carbon after cable river after {phrase} cinema magnet instead of 3de balcony."
    assert score_likeness(message(one), message(other)) < ALIKE
    assert score_likeness(message("请把数据库迁移到新的服务器上"), message("请把数据库迁移到旧的服务器上")) >= ALIKE


def test_what_calls_a_tool_is_no_translation_of_what_calls_none() -> None:
    said = [message("Which wharf is free for the ferry?"), message("Wharf 3 of 4 is free today.", "assistant")]
    other = [message("Welcher Kai ist frei für die Fähre?"), message("Kai 3 von 4 ist heute frei.", "assistant")]
    assert are_rewritten(list(zip(said, other, strict=True)))
    assert not are_rewritten([(said[0], other[0]), (said[1], calling("Kai 3 von 4 ist heute frei."))])
    assert not are_rewritten([(said[0], other[0]), (said[1], message("Kai 2 von 4 ist heute frei.", "assistant"))])


def test_each_of_several_results_may_be_reduced() -> None:
    def results(*texts: str) -> Message:
        parts = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": text} for n, text in enumerate(texts)]
        return message(parts)

    stored = results(LONG, "two lines", LONG)
    for shown in (("[cleared]", "two lines", LONG[:80] + "…"), ("", "two lines", LONG), (LONG, "", "")):
        assert is_reduction(stored, results(*shown))
    assert not is_reduction(stored, results("[cleared]", "three lines", LONG))

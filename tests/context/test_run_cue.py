from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.context.choose import relevance_scores
from lossless.context.run import cue_message, cue_snippet, cue_terms, looks_secret, place_cue
from lossless.model.messages import Message, Text
from tests.context.streams import assistant, results, tool, user


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        pytest.param("why is RETRY_LIMIT_MS set?", ("RETRY_LIMIT_MS",), id="constants"),
        pytest.param("look at lib/db/migrate.py again", ("lib/db/migrate.py",), id="paths"),
        pytest.param('you said "blue whale" once', ("blue whale",), id="quotations"),
        pytest.param("was it „der blaue Wal“?", ("der blaue Wal",), id="quotations of other languages"),
        pytest.param("call getUserName and user_name", ("user_name", "getUserName"), id="identifiers"),
        pytest.param("what was ERR-4597?", ("ERR-4597",), id="codes"),
        pytest.param("上次数据库迁移失败的原因是什么", ("上次数据库迁移失败",), id="Chinese"),
        pytest.param("サーバーを再起動する", ("サーバー", "再起動"), id="Japanese"),
        pytest.param("DB_PASSWORD and API_KEY and authToken", (), id="nothing that names a secret"),
        pytest.param("what do you think?", (), id="nothing in a plain question"),
    ],
)
def test_what_a_prompt_names(prompt: str, wanted: tuple[str, ...]) -> None:
    assert cue_terms(prompt) == wanted


def test_what_is_shown_already_needs_no_cue() -> None:
    assert cue_terms("A_B and C_D", shown="… a_b …") == ("C_D",)


@given(st.text(max_size=300))
def test_no_prompt_raises(prompt: str) -> None:
    found = cue_terms(prompt)
    assert len(found) <= 4
    for term in found:
        assert not looks_secret(term)


def test_the_snippet_is_the_sentence_with_the_term() -> None:
    text = "First this. RETRY_LIMIT is 30 because of the proxy! Then that."
    assert cue_snippet(text, "retry_limit") == "RETRY_LIMIT is 30 because of the proxy!"
    assert cue_snippet("原因是锁。数据库迁移失败了。好的", "数据库迁移") == "数据库迁移失败了。"
    assert cue_snippet(text, "nothing") is None


def test_a_long_sentence_is_cut_around_the_term() -> None:
    snippet = cue_snippet("a " * 5_000 + "HERE_IT_IS" + " b" * 5_000, "HERE_IT_IS")
    assert snippet is not None
    assert "HERE_IT_IS" in snippet
    assert len(snippet) <= 1_200


@pytest.mark.parametrize(
    "text",
    [
        "MAX_ID with AKIAIOSFODNN7EXAMPLE",
        "MAX_ID ghp_abcdefghijklmnopqrstuvwxyz",
        "MAX_ID sk-abcdefghijklmnopqrst",
        "MAX_ID -----BEGIN RSA PRIVATE KEY-----",
        "MAX_ID password: hunter22",
        "MAX_ID at https://me:hunter22@host/x",
    ],
)
def test_a_snippet_with_a_secret_is_not_carried_around(text: str) -> None:
    assert cue_snippet(text, "MAX_ID") is None


def test_the_cue_quotes_at_most_four_and_nothing_that_is_shown() -> None:
    cue = cue_message([("msg#1", "a < b"), ("msg#2", "seen"), *((f"msg#{n}", f"s{n}") for n in range(3, 9))], "seen")
    assert cue is not None
    assert "- [msg#1] a &lt; b" in cue.content
    assert cue.content.count("- [msg#") == 4
    assert cue.content.startswith("<lossless_claw_prompt_recall>\n")
    assert cue_message([("msg#2", "seen")], "seen") is None


def test_the_cue_stands_before_the_newest_user_message() -> None:
    cue = user("cue")
    old, question, call, answer = user("old"), user("q"), assistant(Text("t"), "c1"), tool("c1")
    assert place_cue((old, question, call, answer), cue) == (old, cue, question, call, answer)
    mixed = (user("q"), assistant("c1"), results("c1", text="and?"))
    assert place_cue(mixed, cue) == mixed
    assert place_cue((Message("system", "s"),), cue)[-1] is cue


def test_relevance_reads_every_script_and_is_fair_to_long_texts() -> None:
    texts = ["数据库迁移失败了", "Сервер базы данных упал", "the deploy failed", "nothing of that"]
    assert relevance_scores("为什么数据库失败", texts)[0] > 0
    assert relevance_scores("почему упал сервер", texts)[1] > 0
    assert relevance_scores("why did the deploy fail? deploy!", texts)[2] > 0
    assert relevance_scores("deploy", texts)[3] == 0
    assert relevance_scores("the of and", texts) == (0.0,) * 4
    assert relevance_scores("", []) == ()
    long = "deploy " * 5 + "word " * 60
    assert relevance_scores("deploy", [long, "deploy"])[0] > 0.5 * relevance_scores("deploy", [long, "deploy"])[1]

"""`lcm cost` and `lcm model test`: who writes summaries, what that costs, what it saves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lossless.store.state import LedgerRow
from lossless.testing.provider import Provider, Say
from tests.built import built

from .loop import BUDGET, CHAT, LONG, OTHER, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    import lossless

    from .conftest import Lcm

NOW = datetime.now(UTC)


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two long conversations that are not folded yet."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, _build_long)


def _build_long(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(LONG, CHAT)
        engine.append(OTHER, CHAT[:120])


def call(engine: lossless.Engine, model: str, cost: str | None, *, days: int = 0, conversation_id: int = 1) -> None:
    """A line of the ledger: one call that read 1000 tokens and wrote 100."""
    at = NOW - timedelta(days=days)
    guards = engine.archive.guards
    with engine.archive.writing():
        row = LedgerRow(0, f"compaction:{conversation_id}", "call", at, None, at, "reserved")
        id_ = guards.add_entry(row, conversation_id=conversation_id, purpose="summary", model=model)
        known = None if cost is None else Decimal(cost)
        guards.settle(id_, "done", model=model, input_tokens=1000, output_tokens=100, cost=known)


# --- cost ------------------------------------------------------------------------------------------------------


def test_nothing_spent_and_nothing_saved(lcm: Lcm, long: Path) -> None:
    data = lcm("cost").data
    assert (data["spent"], data["saved"], data["since"]) == ([], [], None)
    assert data["totals"]["calls"] == data["totals"]["savedTokensPerTurn"] == 0
    assert "nothing: no model was called" in lcm("cost", "--format", "table").out


def test_what_folds_save_is_what_left_the_context(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        reports = [engine.compact(session, budget=BUDGET, force=True) for session in (LONG, OTHER)]
    saved = [report.tokens_before - report.tokens_after for report in reports]
    data = lcm("cost").data
    assert data["totals"]["savedTokens"] == sum(saved)
    assert data["totals"]["savedTokensPerTurn"] == round(sum(saved) / 2)
    assert data["totals"]["folds"] == sum(len(report.summary_ids) for report in reports)
    assert [row["model"] for row in data["saved"]] == ["lossless-extractive"]
    one = lcm("cost", "--session-key", LONG.key).data
    assert one["conversationId"] == 1
    assert one["totals"]["savedTokensPerTurn"] == saved[0]
    assert lcm("cost", "--after", "2100-01-01T00:00:00Z").data["saved"] == []


def test_money_is_added_up_and_what_is_unknown_is_not_zero(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        for cost in ("0.1", "0.02"):
            call(engine, "p/known", cost)
        call(engine, "p/unknown", None)
        call(engine, "p/half", "0.003")
        call(engine, "p/half", None, conversation_id=2)
        call(engine, "p/free", "0")
    data = lcm("cost").data
    assert {row["model"]: row["cost"] for row in data["spent"]} == {
        "p/known": "0.12", "p/unknown": "unknown", "p/half": "0.003", "p/free": "0",
    }  # fmt: skip
    assert {row["model"]: row["costText"] for row in data["spent"]} == {
        "p/known": "$0.1200", "p/unknown": "unknown", "p/half": "$0.0030 + 1 call of unknown cost", "p/free": "$0.0000",
    }  # fmt: skip
    known = next(row for row in data["spent"] if row["model"] == "p/known")
    assert (known["calls"], known["done"], known["failed"]) == (2, 2, 0)
    assert (known["inputTokens"], known["outputTokens"], known["purpose"]) == (2000, 200, "summary")
    totals = data["totals"]
    assert (totals["cost"], totals["callsOfUnknownCost"], totals["calls"]) == ("0.123", 2, 6)
    assert lcm("cost", "--conversation-id", 2).data["totals"]["cost"] == "unknown"


def test_a_stretch_of_time(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        call(engine, "p/m", "1", days=10)
        call(engine, "p/m", "2", days=1)
    assert lcm("cost").data["totals"]["cost"] == "3"
    recent = lcm("cost", "--recency", "3d").data
    assert recent["totals"]["cost"] == "2"
    assert recent["since"] is not None
    assert lcm("cost", "--after", (NOW - timedelta(days=20)).isoformat()).data["totals"]["cost"] == "3"


def test_people_see_what_it_cost(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        engine.compact(LONG, budget=BUDGET, force=True)
        call(engine, "openrouter/some-vendor/some-model-with-a-long-name-2026-07", None)
    out = lcm("cost", "--format", "table").out
    for word in (
        "unknown",
        "some-model-with-a-long-name-2026-07",
        "1,000 read, 100 written",
        "tokens on average",
        "extracted",
    ):
        assert word in out


def test_your_prices_are_counted(lcm: Lcm, long: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "local/small-1")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    with Provider(lambda _: Say("They talked about ferries.")) as provider:
        monkeypatch.setenv("LCM_SUMMARY_BASE_URL", f"{provider.url}/v1")
        assert lcm("compact", "--session-key", OTHER.key).data["summaryIds"]
        (unpriced,) = lcm("cost", "--session-key", OTHER.key).data["spent"]
        (home / "lossless.toml").write_text('[modelPrices."local/small-1"]\ninput = 2\noutput = 10\n', encoding="utf-8")
        assert lcm("compact", "--session-key", LONG.key).data["summaryIds"]
        (priced,) = lcm("cost", "--session-key", LONG.key).data["spent"]
        (tried,) = lcm("model", "test").data["items"]
    assert (unpriced["cost"], unpriced["callsOfUnknownCost"]) == ("unknown", unpriced["calls"])
    assert priced["inputTokens"] > 0
    assert priced["outputTokens"] > 0
    paid = (2 * priced["inputTokens"] + 10 * priced["outputTokens"]) / Decimal(1_000_000)
    assert (priced["model"], Decimal(priced["cost"]), priced["callsOfUnknownCost"]) == ("local/small-1", paid, 0)
    assert tried["cost"].startswith("$")


def test_a_wrong_price_is_named(lcm: Lcm, long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_MODEL_PRICES", '{"local/small-1": {"input": "much", "output": 10}}')
    answer = lcm("cost")
    assert (answer.code, answer.error["code"]) == (4, "bad_setting")
    assert "modelPrices.local/small-1.input" in answer.error["message"]
    assert "LCM_MODEL_PRICES" in answer.error["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("cost", "--recency", "soon"), 2, "bad_arguments"),
        (("cost", "--recency", "1d", "--after", "2026-01-01T00:00:00Z"), 2, "bad_arguments"),
        (("cost", "--session-key", "nobody"), 3, "not_found"),
        (("cost", "--db", "nowhere.db"), 3, "not_found"),
        (("model", "try"), 2, "bad_arguments"),
    ],
)
def test_things_done_wrong(lcm: Lcm, long: Path, arguments: tuple[Any, ...], code: int, name: str) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (code, name)


# --- model test ------------------------------------------------------------------------------------------------


def test_without_a_configured_model_summaries_are_extracted(lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-lying-about")
    data = lcm("model", "test").data
    assert data == {"configured": False, "summaries": "extracted", "writer": "lossless-extractive", "items": []}
    assert "Summaries are extracted: no model is configured." in lcm("model", "test", "--format", "table").out


def test_a_model_that_answers(lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "command/echo ready")
    data = lcm("model", "test").data
    assert (data["summaries"], data["writer"]) == ("written", "command/echo ready")
    (item,) = data["items"]
    assert (item["ok"], item["answer"], item["cost"], item["address"]) == (True, "ready", "unknown", "echo ready")
    assert "echo ready  answers" in lcm("model", "test", "--format", "table").out


def test_one_of_several_that_answers_is_enough(lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "command/false")
    failed = lcm("model", "test")
    assert (failed.code, failed.envelope["ok"]) == (1, False)
    (item,) = failed.envelope["data"]["items"]
    assert (item["ok"], item["error"]) == (False, "model")
    assert "exit code 1" in item["message"]
    monkeypatch.setenv("LCM_FALLBACK_PROVIDERS", "command/echo yes")
    assert [item["ok"] for item in lcm("model", "test").data["items"]] == [False, True]
    assert lcm("model", "test").data["writer"] == "command/echo yes"
    assert "no answer" in lcm("model", "test", "--format", "table").out


def test_keys_are_named_and_never_shown(lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "openai/gpt-5-mini")
    monkeypatch.setenv("LCM_FALLBACK_PROVIDERS", "anthropic/claude-haiku-4-5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("LCM_SUMMARY_BASE_URL", "http://me:hidden@localhost:9/v1")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    answer = lcm("model", "test", "--no-call")
    first, second = answer.data["items"]
    assert (first["name"], first["keyFrom"]) == ("openai/gpt-5-mini", "environment (OPENAI_API_KEY)")
    assert first["address"].endswith("@localhost:9/v1")
    assert "ok" not in first
    assert second["problem"] == "no credential for provider 'anthropic': set ANTHROPIC_API_KEY"
    table = lcm("model", "test", "--no-call", "--format", "table").out
    assert "no credential" in table
    for secret in ("sk-very-secret", "hidden"):
        assert secret not in answer.out
        assert secret not in table


def test_a_model_without_a_provider_is_a_wrong_setting(lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "some-model")
    answer = lcm("model", "test")
    assert (answer.code, answer.error["code"]) == (4, "bad_setting")

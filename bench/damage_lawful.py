"""What another program may do to an archive: changes that `lcm verify` does not call damage, each with its reason."""

from __future__ import annotations

_STATE = "what a running program notes for its next turn; no words, and rewritten all the time"
_CLAW = "lossless-claw rewrites it as it runs"

#: By table and column; `*` is any column, and the verbs stand for whole rows.
LAWFUL: dict[tuple[str, str], str] = {
    ("archive_state", "*"): _STATE,
    ("breakers", "*"): _STATE,
    ("expansion_grants", "*"): _STATE,
    ("history_budgets", "*"): _STATE,
    ("ingest_state", "*"): _STATE,
    ("last_windows", "*"): _STATE,
    ("leases", "*"): _STATE,
    ("prompt_evidence", "*"): _STATE,
    ("prompt_receipts", "*"): _STATE,
    ("spend_ledger", "*"): _STATE,
    ("stubborn_chunks", "*"): _STATE,
    ("token_factors", "*"): _STATE,
    ("transcript_epochs", "*"): _STATE,
    ("transcript_state", "*"): _STATE,
    ("turn_keys", "*"): _STATE,
    ("message_extras", "claimed"): _STATE,
    ("message_vectors", "*"): "derived from words; of no use beside other words, and made anew",
    ("conversation_bootstrap_state", "*"): _CLAW,
    ("conversation_compaction_maintenance", "*"): _CLAW,
    ("conversation_compaction_telemetry", "*"): _CLAW,
    ("lcm_migration_state", "*"): _CLAW,
    ("context_items", "created_at"): _CLAW,
    ("context_items", "ordinal"): "lossless-claw numbers a context anew; the order is checked",
    ("conversations", "INSERT"): "a new session",
    **{
        ("conversations", name): "lossless-claw renames, closes and reopens sessions"
        for name in (
            "session_id", "session_key", "active", "archived_at", "archive_cause", "title",
            "bootstrapped_at", "updated_at",
        )
    },
    **{
        ("focus_briefs", name): "lossless-claw supersedes and moves briefs"
        for name in ("session_key", "status", "updated_at", "superseded_at", "covered_message_seq", "raw_result_json")
    },
    ("focus_briefs", "INSERT"): "lossless-claw writes briefs",
    ("focus_brief_sources", "INSERT"): "lossless-claw writes briefs",
    ("large_files", "INSERT"): "lossless-claw stores files",
    ("messages", "transcript_entry_id"): "hosts give messages other ids",
    ("messages", "stable_event_key"): "hosts give messages other ids",
}  # fmt: skip


def reason(table: str, verb: str, column: str) -> str:
    """Why a change is lawful; empty when it is not."""
    return LAWFUL.get((table, column or verb), "") or LAWFUL.get((table, "*"), "")

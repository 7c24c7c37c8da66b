from __future__ import annotations

from lossless.context.render import RECALL_POLICY
from lossless.providers.token_limits import overhead_tokens, recall_tool_tokens


def test_what_we_add_is_counted() -> None:
    assert overhead_tokens() == 0
    assert recall_tool_tokens() == recall_tool_tokens(policy=False) + overhead_tokens(RECALL_POLICY)
    assert 1_000 < recall_tool_tokens() < 4_000

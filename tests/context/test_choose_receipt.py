from __future__ import annotations

from lossless.context.choose import choose
from lossless.context.repair import MessageRepair
from lossless.context.run import make_receipt
from tests.context.contexts import context, policy


def test_the_receipt_says_what_is_in_and_what_is_not_and_why() -> None:
    candidates = context("s10 u60 a60 u10 a10")
    rules = policy(candidates, 100, reserved=20)
    slip = make_receipt(
        choose(candidates, rules),
        rules,
        {"pins": 15, "cue": 0},
        [("pin 7", "over its share")],
        repairs=[MessageRepair("missing result noted", 2)],
    )
    assert slip.included == (("sum_1", "verbatim"), ("msg#4", "verbatim"), ("msg#5", "verbatim"))
    assert slip.left_out == (("msg#2", "over budget"), ("msg#3", "over budget"), ("pin 7", "over its share"))
    assert slip.tokens_by_kind == {"messages": 20, "summaries": 10, "pins": 15}
    assert (slip.tokens, slip.capacity, slip.fits) == (45, 100, True)
    assert str(slip).splitlines() == [
        "45 of 100 tokens",
        "  protected tail: 25.0% (aim 25% to 30%)",
        "  recent summaries: 0.0% (aim 30% to 40%)",
        "  widest summary: 12.5% (aim 10% to 15%)",
        "  background: 0.0%",
        "  messages: 20 tokens",
        "  summaries: 10 tokens",
        "  pins: 15 tokens",
        "  left out msg#2: over budget",
        "  left out msg#3: over budget",
        "  left out pin 7: over its share",
        "  repaired: missing result noted (2)",
    ]

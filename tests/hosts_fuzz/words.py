"""What a message says, and texts to say: long, short and repeated ones, and ones that are hard to write down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

#: What people and models say again and again.
SHORT = ("ok", "yes", "thanks", "continue", "no", "Done.", "go on", "👍", "ok.", "好的")
SHORT_RESULTS = ("", "ok", "(no output)", "0", "exit code 0", "[]")
HARD = (
    "e\u0301clair vs éclair",
    "👩‍👩‍👧‍👦 \u202eright to left\u202c",
    "ẞtraße ﬁle \u00a0 spaces \u2003 \ttab",
    "<b>&amp;</b> </summary> <|im_end|>",
    "\u200bzero\u200bwidth\ufeff",
    "a\r\nb\rc\u2028d",
    "日本語のテスト 한국어 ไทย",
    "{{curly}} %s $HOME `tick` \\n",
)
_WORDS = tuple(
    """
amber anchor archive arrow autumn backup badge balcony barrel basket beacon binary bottle branch bridge bucket
budget button cabin cable camera candle canyon carbon castle cedar census chapel charter cinema circuit clinic
cluster coffee column comet compass config copper corner cotton cradle crystal cursor daemon desert diesel digest
dragon driver eagle echo editor embassy engine estate fabric falcon ferry fiddle filter flannel folder forest
fountain galaxy garden gateway ginger glacier granite gravel guitar hammer handle harbor hazel header helmet hollow
hunter import index island jacket jigsaw jungle kernel kettle ladder lantern latency lattice ledger lemon library
lizard locker magnet marble market meadow meteor mirror module mosaic mutex napkin needle nickel notebook number
oasis object octopus orchard outlet oyster packet paddle palace panel parser pebble pepper picnic pillow pirate
planet pocket polymer portal prism puzzle quartz queue rabbit radar raven record relay ribbon river robot rocket
router saddle salmon sandal schema scooter server shadow signal silver socket spider spiral stable station stream
summit sunset syntax tablet target temple thread timber token tractor tunnel turbine turtle valley vector velvet
village violin walnut warden whisper willow window winter wizard yellow zebra zipper
""".split()  # noqa: SIM905
)
_LINKS = ("and", "with", "before", "after", "because of", "instead of", "near", "under", "without", "for", "then")
_VERBS = ("check", "move", "rename", "deploy", "compare", "open", "review", "measure", "restore", "explain", "remove")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one message: what must never be dropped. Call ids name a place and are no words."""

    role: str
    text: str = ""
    #: Call id, tool name and arguments as JSON.
    calls: tuple[tuple[str, str, str], ...] = ()
    thinking: str = ""
    #: Of a result: the id of the call that it answers.
    answers: str = ""

    @property
    def said(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What a prompt and a row are compared by: thinking is not carried into every prompt."""
        return self.role, self.text, tuple((name, arguments) for _, name, arguments in self.calls)

    @property
    def pieces(self) -> frozenset[tuple[str, str]]:
        """Each wording by itself: kind and text."""
        found = {("call", f"{name} {arguments}") for _, name, arguments in self.calls}
        if self.text:
            found.add(("text", self.text))
        if self.thinking:
            found.add(("thinking", self.thinking))
        return frozenset(found)

    @property
    def spoken(self) -> list[tuple[str, str, str]]:
        """Role, text and call of each block, as a prompt may group them in another way."""
        text = [(self.role, self.text, "")] if self.text else []
        return [*text, *((self.role, "", f"{name} {arguments}") for _, name, arguments in self.calls)]

    @property
    def is_short(self) -> bool:
        """So short that someone may well say it again."""
        return len(self.text) < 16 and not self.calls


def sentence(random: Random, token: str, length: int = 0) -> str:
    """A sentence like no other: `token` stands in it."""
    count = length or random.randint(5, 18)
    said = [random.choice(_WORDS) if place % 3 else random.choice(_LINKS) for place in range(1, count)]
    said.insert(random.randint(0, len(said)), f"#{token}")
    if random.random() < 0.1:
        said.insert(random.randint(0, len(said)), random.choice(HARD))
    return f"{random.choice(_VERBS).capitalize()} " + " ".join(said) + random.choice((".", "?", "", "!"))


def output(random: Random, token: str) -> str:
    """What a tool prints: some lines, at times many."""
    lines = random.choice((1, 2, 3, 5, 40))
    return "\n".join(sentence(random, f"{token}-{line}", 8) for line in range(lines))

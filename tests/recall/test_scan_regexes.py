"""Regular expressions: what they need, and that none can hang a search."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import BadPattern
from lossless.recall.scan import MAX_EXPANDED_SIZE, MAX_REGEX_CHARS, Regex, RegexTraits


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("deploy", ("deploy",)),
        (r"ERR-\d+ in worker", ("ERR-", " in worker")),
        ("(foo)+bar", ("foo", "bar")),
        ("(?:foo)?barbaz", ("barbaz",)),
        ("foo|bar", ()),
        ("pre(?:foo|bar)post", ("pre", "post")),
        ("[abc]def", ("def",)),
        ("^start.*end$", ("start", "end")),
        (r"\bword\b", ("word",)),
        ("(?i)Deploy", ("deploy",)),
        ("(?i)kiss", ()),
        ("xyz(?i:abc)defg", ("xyz", "defg")),
        ("abc{e<=1}", ()),
        ("abc{1<=e<=2}", ()),
        ("[[:alpha:]]xyz", ()),
        ("ab", ()),
        ("a{3}bcd", ("bcd",)),
        ("(?x) a b c d", ("abcd",)),
        (r"a\.b\.c", ("a.b.c",)),
        (r"\p{L}abc", ()),
    ],
)
def test_what_a_match_must_hold(pattern: str, needed: tuple[str, ...]) -> None:
    assert RegexTraits(pattern).needed == needed


_pieces = st.sampled_from(["abc", "def", ".", ".*", "(x|yz)", "[a-c]+", "(?:def)?", r"\d", "a{2}", "(abc)+", "^", "$"])


@settings(max_examples=50)
@given(
    pieces=st.lists(_pieces, min_size=1, max_size=5), text=st.text("abcdefxyz01\n", max_size=60), ignore=st.booleans()
)
def test_no_match_is_without_what_it_must_hold(pieces: list[str], text: str, ignore: bool) -> None:
    pattern = Regex(("(?i)" if ignore else "") + "".join(pieces))
    for shown in (text, text.upper()):
        found = pattern.find(shown, 1.0)
        assert (found is None) == (re.search(pattern.pattern, shown) is None)
        if found is not None:
            held = shown.lower() if pattern.ignores_case else shown
            assert all(needed in held for needed in pattern.needed)


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("(", 1), ("a[", 2), ("*a", 0), (r"\N{nothing}", None), ("(?P<1>a)", None), ("a)", None), ("(?<=a+", None)],
)
def test_a_broken_pattern_says_where(pattern: str, position: int | None) -> None:
    with pytest.raises(BadPattern) as caught:
        Regex(pattern)
    assert caught.value.pattern == pattern
    if position is not None:
        assert caught.value.position == position


@pytest.mark.parametrize("pattern", ["", "x" * (MAX_REGEX_CHARS + 1), "(?R)", "(a(?1)b)", "(?P<x>a)(?&x)", "(" * 2000])
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|a)*b",
        "(.*)*=x",
        "(?:a|aa)+$",
        r"(\w+\s?)*!",
        "(x+x+)+y",
        "a*a*a*a*a*a*b",
        "(a|a)+(b|$)",
        "(a?){50}a{50}",
    ],
)
def test_nothing_hangs(pattern: str) -> None:
    """Without a limit most would take years on one of these texts; what counts is the work of this thread."""
    compiled = Regex(pattern)
    for text in ("a" * 3000, "a" * 40, "x" * 3000, "a b " * 900, "a" * 3000 + "c", "ca" + "a" * 1000 + "!cb=y"):
        start = time.thread_time()
        try:
            found = compiled.find(text, 0.1)
        except TimeoutError:
            found = None
        assert time.thread_time() - start < 2.0
        assert found is None or 0 <= found[0] < found[1] <= len(text)


@pytest.mark.parametrize("pattern", ["(?:a|aa)+$", "(a|a)+(b|$)"])
def test_a_search_without_end_says_that_time_ran_out(pattern: str) -> None:
    with pytest.raises(TimeoutError):
        Regex(pattern).find("a" * 3000 + "c", 0.1)


def test_harmless_patterns_are_not_watched() -> None:
    assert RegexTraits("deploy").harmless_chars > 1_000_000
    assert 1000 < RegexTraits(r"ERR-\d+ in").harmless_chars < 10_000
    assert RegexTraits("a?" * 30 + "a" * 30).harmless_chars < 10
    assert RegexTraits(r"\d{7}[a-z]").harmless_chars > 1_000_000
    for wild in ("(a+)+", "(a|a)+", "(a|ab)*", "(a?)+", "(?:ab)+", r"(\w\s?)*"):
        assert RegexTraits(wild).harmless_chars == 0
    assert RegexTraits(r"(a)\1").harmless_chars == 0
    assert RegexTraits("(?=a)b").harmless_chars == 0


@settings(max_examples=50)
@given(pattern=st.text(max_size=30) | st.text("()[]{}*+?|\\^$.,-<>=!:#&~a1PR\n ", max_size=24))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    try:
        compiled = Regex(pattern)
    except BadPattern:
        return
    for text in ("", "a1 -> b2", "aaaa" * 20):
        try:
            found = compiled.find(text, 0.2)
        except TimeoutError:
            continue
        assert found is None or 0 <= found[0] <= found[1] <= len(text)


def test_the_linear_engine_must_be_installed() -> None:
    if find_spec("re2") is None:
        with pytest.raises(BadPattern, match="re2, which is not installed"):
            Regex("a+b", "re2")
    else:
        assert Regex("a+b", "re2").find("xaab", 1.0) == (1, 4)


_REPEATED = [
    "a{30000000}",
    "(?:a{1000}){1000}",
    "((((((a{10}){10}){10}){10}){10}){10}){10}",
    "[a-z]{3000000}?",
    r"\X{1000000}",
    "(?x) a {3000000 }",
    "(?V1)[a--b]{3000000}",
    "(?|(a{3000000})|b)",
    "(?=a{3000000})",
    "(?r)(?P<n>a){3000000}",
    "(?:abc){e<=3}{3000000}",
    "a{999999999999999999999999}",
]


@pytest.mark.parametrize("pattern", _REPEATED)
def test_a_pattern_that_would_fill_the_memory_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="20,000"):
        Regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(?:\d{4}-\d{2}-\d{2}T\d{2}:\d{2}){20}",
        "za{0,30000000}",
        ".{1,5000}b{2,}",
        "x{1000}",
    ],
)
def test_repeats_of_a_usual_size_are_searched_for(pattern: str) -> None:
    assert RegexTraits(pattern).expanded_size <= MAX_EXPANDED_SIZE
    assert Regex(pattern).find("nothing of it", 1.0) is None


_COMPILES = """
import resource, sys
from lossless.errors import BadPattern
from lossless.recall.scan import Regex
Regex("a")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for pattern in sys.argv[1:]:
    try:
        Regex(pattern)
    except BadPattern:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no measure of a process's memory")
def test_no_pattern_takes_much_memory_to_compile() -> None:
    """Nested repeats, sets and alternations by a seeded generator, and those just below the bound."""
    chance = random.Random(7)

    def pattern(depth: int) -> str:
        atom = chance.choice(["a", "é", "[a-f0-9]", r"\d", r"\p{L}", ".", "(?i:ß)", r"\bx", "|".join("abcdefgh")])
        inner = atom if depth == 0 else "".join(pattern(depth - 1) for _ in range(chance.randint(1, 3)))
        opened = chance.choice(["(?:", "(", "(?>", "(?="])
        least = chance.choice([0, 1, 2, 10, 300, 20_000, 3_000_000])
        return f"{opened}{inner}){{{least}{chance.choice(['', ',', f',{least + 5}'])}}}{chance.choice(['', '?', '+'])}"

    hard = [
        f"a{{{MAX_EXPANDED_SIZE}}}",
        f"(?:[a-z]){{{MAX_EXPANDED_SIZE // 2}}}",
        "(?i)" + "|".join(["äöüß"] * 700),
        "a|" * 1900,
    ]
    hard += ["(?:a?)" * 600, "(" * 900 + "a" + ")" * 900, "(?:" * 60 + "a" + "){2}" * 60]
    tried = [text for _ in range(400) if len(text := pattern(chance.randint(0, 3))) <= MAX_REGEX_CHARS]
    done = subprocess.run([sys.executable, "-c", _COMPILES, *hard, *tried], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150

"""Text for search: folded and stemmed words, stop words in eight languages, passages, and extra index tokens."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.model.messages import Json

#: A word: letters and digits of any script. An underscore separates words, like a space.
WORD = re.compile(r"[^\W_]+")

#: Letters whose accents are ignored in search: Latin, Greek, ё, full-width forms.
_ACCENTED = re.compile(
    "[\u00aa\u00ba\u00c0-\u024f\u0386-\u03ce\u0401\u0451\u1e00-\u1fff\u2126\u212a\u212b\uff10-\uff5a]"
)


@lru_cache(maxsize=1)
def _marks() -> re.Pattern[str]:
    """All combining marks: separate accents, and vowel signs of Hebrew, Arabic, Indic scripts and Thai."""
    spans = (range(0x300, 0x370), range(0x483, 0x1E00), range(0x20D0, 0x2100), range(0x3099, 0x309B))
    marks = [chr(code) for span in spans for code in span if unicodedata.category(chr(code))[0] == "M"]
    return re.compile(f"[{''.join(marks)}\ufe0e\ufe0f\ufe20-\ufe2f]+")


def fold_text(text: str) -> str:
    """`text` in lower case without accents, letter for letter.

    Only combining marks of their own disappear: a text that has none keeps all its positions.

    >>> fold_text("Ünïcode CAFÉ Ёлка Ελλάδα"), fold_text("e\u0301t"), fold_text("مُحَمَّد")
    ('unicode cafe елка ελλαδα', 'et', 'محمد')
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    if _ACCENTED.search(lower):
        lower = _ACCENTED.sub(_plain_match, lower)
    return strip_marks(lower)


def strip_marks(text: str) -> str:
    return text if text.isascii() else _marks().sub("", text)


def fold_offsets(text: str, folded: str) -> list[int] | None:
    """For each position of `folded` (and its end) the position in `text`; None when they are the same."""
    if len(text) == len(folded):
        return None
    marks = _marks()
    return [at for at, char in enumerate(text) if not marks.match(char)] + [len(text)]


def _plain_match(match: re.Match[str]) -> str:
    return _plain(match.group())


@lru_cache(maxsize=2048)
def _plain(char: str) -> str:
    base = "".join(part for part in unicodedata.normalize("NFKD", char) if not unicodedata.combining(part))
    return base.lower() if len(base.lower()) == 1 else char


def folded_words(text: str) -> list[str]:
    """The words of `text`, folded.

    >>> folded_words("Don't touch src/naïve_path.py!")
    ['don', 't', 'touch', 'src', 'naive', 'path', 'py']
    """
    return WORD.findall(fold_text(text))


# --- Porter's stemmer ---------------------------------------------------------------------------
# M. F. Porter, "An algorithm for suffix stripping", 1980, with the readings that SQLite's tokenizer has.

_STEP2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("logi", "log"), ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
)
_STEP3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")),
    ("ness", ""),
)
_STEP4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism"),
    *("ate", "iti", "ous", "ive", "ize"),
)
_STEMMABLE = re.compile("[a-z]{3,64}")
#: Case, number and gender endings of Russian, longest first; a stem keeps three letters.
_RUSSIAN_END = re.compile(
    "(?<=[а-я]{3})(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|иях|ях|ах|ям|ам|ов|ев|ей|ой|ый|ий|ая|яя|ое|ее|ые|ие|ую"
    "|юю|ия|ии|ию|ью|ом|ем|ым|им|ых|их|а|е|и|о|у|ы|ю|я|й|ь)$"
)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a folded English word, or a Russian one without its ending; any other word unchanged.

    >>> [stem(word) for word in ("running", "happiness", "relational", "deployed", "é", "x86")]
    ['run', 'happi', 'relat', 'deploi', 'é', 'x86']
    """
    if not _STEMMABLE.fullmatch(word):
        return word if word.isascii() else _RUSSIAN_END.sub("", word)
    word = _step1(word)
    for suffixes in (_STEP2, _STEP3):
        for suffix, instead in suffixes:
            if word.endswith(suffix):
                if _measure(word[: -len(suffix)]) > 0:
                    word = word[: -len(suffix)] + instead
                break
    return _step5(_step4(word))


def _consonants(word: str) -> str:
    """`c` for each consonant, `v` for each vowel; y is a vowel after a consonant."""
    kinds = ""
    for letter in word:
        kinds += "v" if (letter in "aeiou" or (letter == "y" and kinds.endswith("c"))) else "c"
    return kinds


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _consonants(word).count("vc")


def _ends_cvc(word: str) -> bool:
    return _consonants(word).endswith("cvc") and word[-1] not in "wxy"


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1] == "c"


def _step1(word: str) -> str:
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) > 0 else word
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix) and "v" in _consonants(word[: -len(suffix)]):
                word = _step1_repair(word[: -len(suffix)])
                break
    if word.endswith("y") and "v" in _consonants(word[:-1]):
        word = word[:-1] + "i"
    return word


def _step1_repair(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and word[-1] not in "lsz":
        return word[:-1]
    if _measure(word) == 1 and _ends_cvc(word):
        return word + "e"
    return word


def _step4(word: str) -> str:
    for suffix in sorted(_STEP4, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest if _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t"))) else word
    return word


def _step5(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH = _set(
    """
    a about above after again against ago all also although always am among an and another any anybody anyone
    anything are aren as at be became because become been before being below between both but by can cannot
    could couldn d did didn do does doesn doing don done down during each either else ever every everybody
    everyone everything few for from further get gets getting give given gives go goes going gone got had hadn
    has hasn have haven having he her here hers herself him himself his how however i if in instead into is isn
    it its itself just ll let m made make makes many may maybe me might mine more most much must mustn my myself
    neither never no nobody none nor not nothing now of off often on once one only onto or other others ought our
    ours ourselves out over own per perhaps please quite rather re really s said same say says shall shan she
    should shouldn since so some somebody someone something such t than that the their theirs them themselves
    then there therefore these they thing things this those though through thus to together too toward towards
    under unless until up upon us used using ve very was wasn we well went were weren what whatever when whenever
    where whether which while who whoever whom whose why will with within without won would wouldn yes yet you
    your yours yourself yourselves
    """
)
GERMAN = _set(
    """
    ab aber alle allem allen aller alles als also am an andere anderen andern anderer anderes auch auf aus bei
    beim bin bis bist da dabei dadurch dafur dagegen daher damit dann daran darauf daraus darf darin daruber
    darum das dass davon dazu dein deine deinem deinen deiner dem den denen denn der deren des deshalb dessen
    dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
    einige einigen einmal er es etwa etwas euch euer eure fur gab gar gegen geht gehabt gewesen gibt hab habe
    haben habt hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist
    ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinem keinen keiner konnen konnte
    konnten machen macht mal man mehr mein meine meinem meinen meiner mich mir mit muss mussen musste nach nein
    nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sogar
    soll sollen sollte sondern sonst trotzdem uber um und uns unser unsere unter viel vom von vor wahrend wann
    war ware waren warum was weg wegen weil welche welchem welchen welcher welches wem wen wenn wer werde werden
    wessen wie wieder will wir wird wirst wo wobei wohin wollen wollte worden wozu wurde wurden zu zum zur zwar
    zwischen
    """
)
FRENCH = _set(
    """
    a afin ai ainsi alors apres as au aucun aucune aussi autre autres aux avait avant avec avez avoir avons ayant
    beaucoup bien c ca car ce ceci cela celle celles celui cependant ces cet cette ceux chaque chez comme comment
    d dans de deja depuis des dont donc du elle elles en encore entre es est et etaient etait etant ete etes etre
    eu eux fait faire fais fois font furent fut il ils j je jusque l la laquelle le lequel les lesquels leur leurs
    lors lorsque lui m ma mais me meme memes mes moi moins mon n ne ni non nos notre nous on ont ou par parce
    parmi pas pendant peu peut peuvent peux plus plusieurs pour pourquoi pouvez pouvoir puis qu quand que quel
    quelle quelles quels quelque quelques qui quoi s sa sans se sera seront ses si soit son sont sous suis sur
    t ta te tes toi ton tous tout toute toutes tres tu un une vers voici voila vos votre vous y
    """
)
SPANISH = _set(
    """
    a al algo alguien algun alguna algunas algunos ante antes aquel aquella aquello asi aun aunque bajo bien cada
    casi como con contra cosa cosas cual cuales cualquier cuando cuanto cuantos de del desde donde dos durante e
    el ella ellas ellos en entonces entre era eran eras eres es esa esas ese eso esos esta estaba estaban estado
    estamos estan estar estas este esto estos estoy fue fueron fui ha habia habian hace hacer hacia han has hasta
    hay he hemos hizo la las le les lo los mas me mi mia mis mismo mucho muchos muy nada ni no nos nosotros
    nuestra nuestro nunca o os otra otras otro otros para pero poco por porque pues que quien quienes se sea ser
    si sido siempre sin sino sobre sois solo somos son soy su sus suyo tal tambien tampoco tan tanto te tener
    tengo ti tiene tienen todo toda todas todos tu tus un una unas uno unos vosotros y ya yo
    """
)
PORTUGUESE = _set(
    """
    a agora ainda algo alguem algum alguma alguns ao aos apenas apos aquela aquele aquilo as assim ate cada com
    como contra contudo da das de dela dele deles depois desde dessa desse desta deste disso do dos durante e ela
    elas ele eles em enquanto entao entre era eram essa essas esse esses esta estao estar estas estava estavam
    este estes estou eu fazer faz fez foi for foram ha isso isto ja la lhe lhes lo mais mas me mesmo meu meus
    minha minhas muito muitos na nao nas nem nenhum nessa nesse nesta neste no nos nossa nosso num numa nunca o
    onde os ou outra outras outro outros para pela pelas pelo pelos pode podem por porem porque pouco quais qual
    quando quanto quantos que quem se sem sempre ser sera seu seus si sido so sobre somos sou sua suas tal
    tambem tanto te tem temos tenho ter teu teve tinha tive toda todas todo todos tu tua tudo um uma umas uns
    vai voce voces vos
    """
)
ITALIAN = _set(
    """
    a abbiamo ad agli ai al alcuni alla alle allo allora altra altre altri altro anche ancora avere aveva avevano
    bene c che chi ci cio cioe come con contro cosa cose cosi cui d da dagli dai dal dalla dalle dallo de degli
    dei del dell della delle dello dentro di dopo dove due durante e ecco ed era erano essere fa fare fatto fino
    fra fu gia gli ha hai hanno ho i il in invece io l la le lei li lo loro lui ma me meno mentre mi mia mie miei
    mio molto ne nei nel nella nelle nello no noi non nostra nostro nulla o od ogni oppure perche pero piu po
    poco poi puo qua quale quali qualche qualcosa qualcuno quando quanti quanto quasi quella quelle quelli quello
    questa queste questi questo qui quindi se sei sempre senza si sia siamo siete sono sopra sotto sta stata
    state stati stato su sua sue sui sul sulla suo suoi tale tanto te ti tra tu tua tuo tuoi tutta tutte tutti
    tutto un una uno vi voi vostra vostro
    """
)
DUTCH = _set(
    """
    aan al alle alles als altijd andere ben bent bij daar dan dat de deze die dit doch doen door dus een eens en
    er ge geen geweest gij haar had hadden heb hebben hebt heeft hem het hier hij hoe hun iemand iets ik in is ja
    je jij jou jouw jullie kan kon kunnen maar me meer men met mij mijn moet moeten na naar niet niets nog nu of
    om omdat onder ons onze ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer
    want waren was wat we weer welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo
    zonder zou zouden
    """
)
RUSSIAN = _set(
    """
    а без более больше будет будто бы был была были было быть в вам вас ваш вдруг ведь во вот впрочем все всегда
    всего всех всю вы где да даже два для до другой его ее ей ему если есть еще ж же за зачем здесь и из или им
    иногда их к как какая какие какой какую когда конечно которая которое которые который кто куда ли лучше между
    меня мне много может можно мои мой моя мы на над надо наконец нас наш не него нее ней нельзя нет ни нибудь
    никогда ним них ничего но ну о об один он она они оно опять от откуда очень перед по под после потом потому
    почему почти при про раз разве с сам свое свой свою себе себя сейчас со совсем так такое такой там тебе тебя
    тем теперь то тогда того тоже только том тот три тут ты у уж уже хоть хорошо хотя чего чей чем через что чтоб
    чтобы чуть эта эти это этого этой этом этот эту я
    """
)
STOP_WORDS = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "pt": PORTUGUESE,
    "it": ITALIAN,
    "nl": DUTCH,
    "ru": RUSSIAN,
}
#: Stop words of other languages that are meaningful English words: they do not identify the language.
_AMBIGUOUS = _set(
    """
    bin car come dare die door dove era fait fare ha hat hay het man met mine mon net on pas pour sale sea sin son
    state sue tale ten todo ton tot van want war wet wie
    """
)


def stop_words(words: Iterable[str]) -> frozenset[str]:
    """The stop words of the language of the folded `words`; English by default.

    >>> "die" in stop_words(["die", "hard", "hat"]), "die" in stop_words("wann war die migration".split())
    (False, True)
    """
    spoken = set(words)
    best = max(STOP_WORDS, key=lambda language: len(spoken & STOP_WORDS[language]))
    found = spoken & STOP_WORDS[best]
    telling = found - _AMBIGUOUS - ENGLISH
    enough = len(found) >= 2 or (not spoken & ENGLISH and any(len(word) >= 4 for word in telling))
    return STOP_WORDS[best] if telling and enough else ENGLISH


#: Rows indexed under another version are reindexed.
INDEX_VERSION = 1
#: A message has at most this many passages; longer ones get longer passages.
MAX_PASSAGES = 4096
#: About 160 words, in characters.
PASSAGE_CHARS = 1000
#: The same amount of Chinese, Japanese or Korean.
PASSAGE_CHARS_DENSE = 400

_REFERENCES = ("[LCM File:", "[LCM Tool Output:")
_SUMMARY_HEAD = "Exploration Summary:"
_OPENING_HINTS = ("Use lcm_describe", "Call lcm_describe")
#: A longer string without spaces in a tool's input is treated as data, not words.
_BLOB_CHARS = 1000


# --- which text ---------------------------------------------------------------------------------


def index_text_of(content: str, tool_inputs: Iterable[Json] = ()) -> str:
    """The searchable text of a message: its content, then the strings in its tool calls' inputs.

    For a reference to an external file, its header line and exploration summary. '' for a blank message.
    """
    if content.startswith(_REFERENCES):
        content = _reference_text(content)
    pieces = [content] if content and not content.isspace() else []
    for tool_input in tool_inputs:
        pieces.extend(_strings(_parsed(tool_input)))
    return "\n".join(pieces)


def _reference_text(content: str) -> str:
    header, _, rest = content.partition("\n")
    lines = rest.split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip().startswith(_SUMMARY_HEAD)), None)
    if start is None:
        return header
    lines[start] = lines[start].strip().removeprefix(_SUMMARY_HEAD)
    return "\n".join([header, *[line for line in lines[start:] if not line.strip().startswith(_OPENING_HINTS)]]).strip()


def _parsed(tool_input: Json) -> Json:
    """OpenAI sends arguments as JSON text; text that does not parse is used unchanged."""
    if not isinstance(tool_input, str) or not tool_input.lstrip().startswith(("{", "[")):
        return tool_input
    try:
        parsed: Json = json.loads(tool_input)
    except (ValueError, RecursionError):
        return tool_input
    return parsed


def _strings(value: Json) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if item and not item.isspace() and not _is_blob(item):
                yield item
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item))


def _is_blob(text: str) -> bool:
    return len(text) > _BLOB_CHARS and text.isascii() and " " not in text and "\n" not in text


# --- passages -----------------------------------------------------------------------------------

#: Where a text is split, best first: after a line, after a sentence, at a space.
_BORDERS = (("\n",), (". ", "! ", "? ", "… ", "。", "！", "？", "؟ ", "۔ ", "। "), (" ", "\t", "\u3000"))


def passages(text: str) -> list[tuple[int, int]]:
    """Split a text into spans of about 160 words at the ends of lines and sentences.

    Spans cover the text without gaps; none is blank unless the whole text is. A text not well over that size has one
    span, an empty text none.
    """
    if len(text) <= PASSAGE_CHARS_DENSE:
        return [(0, len(text))] if text else []
    size = PASSAGE_CHARS if text.isascii() or not _is_dense(text) else PASSAGE_CHARS_DENSE
    if len(text) <= size + size // 2:
        return [(0, len(text))]
    size = max(size, -(-2 * len(text) // MAX_PASSAGES))
    spans: list[tuple[int, int]] = []
    start, cursor, end = 0, len(text) - len(text.lstrip()), 0
    while end < len(text):
        end = _border(text, cursor + size // 2, cursor + size) if (len(text) - cursor) > size + size // 2 else len(text)
        if spans and text[start:end].isspace():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        start = cursor = end
    return spans


def _is_dense(text: str) -> bool:
    if len(text.encode("utf-8", "replace")) <= 2 * len(text):
        return False
    return 2 * sum(map(len, _UNSPACED.findall(text))) > len(text)


def _border(text: str, low: int, high: int) -> int:
    """The last good place to split between `low` and `high`."""
    for marks in _BORDERS:
        end = max((at + len(mark) for mark in marks if (at := text.rfind(mark, low, high)) >= 0), default=0)
        if end:
            return end
    return high


# --- extra tokens -------------------------------------------------------------------------------

#: Scripts without spaces between words, or (Korean) with particles attached to them.
_UNSPACED_LETTERS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u1000-\u102a\u103f\u1780-\u17b3"
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufad9\U00020000-\U000323af"
)
_UNSPACED_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
)
_UNSPACED = re.compile(f"[{_UNSPACED_LETTERS}][{_UNSPACED_LETTERS}{_UNSPACED_MARKS}]*")
_UNSPACED_MARK = re.compile(f"[{_UNSPACED_MARKS}]+")
#: Symbols that people search for; not the lines, boxes, arrows and spinners of terminal output.
_EMOJI = re.compile("[\u231a-\u23ff\u25b6\u25c0\u25fb-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f000-\U0001faff]")
#: Words of scripts whose vowel signs the tokenizer treats as separators: Hebrew, Arabic, Indic scripts.
_SIGNED = re.compile("[\u0591-\u05ea\u0610-\u06d3\u06d6-\u06ed\u06fa-\u06ff\u0900-\u0dff]+")
#: Full-width, half-width and ligature forms of letters and digits.
_VARIANT = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc]")
#: Letters with an accent that the tokenizer keeps and users leave out.
_INDEX_TEXT_ACCENTED = re.compile("[\u0386-\u03ce\u0401\u0451\u1f00-\u1fff]")

_HUMP = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z0-9]+")
_PLUSPLUS = re.compile(r"\+\+(?<=\b[A-Za-z]\+\+)(?!\w)")
_SHARP = re.compile(r"#(?<=\b[A-Za-z]#)(?!\w)")
#: A longer identifier, or one with shorter humps on average, is treated as a digest or base64.
_IDENTIFIER_CHARS = 64
_HUMP_CHARS = 2.5


def _shapes() -> bytes:
    """For each byte of UTF-8 a letter for the character class it begins: one pass shows which rules apply."""
    table = bytearray(b"." * 256)
    for shape, first, last in (
        (b"a", 0x61, 0x7A),  # a-z
        (b"A", 0x41, 0x5A),  # A-Z
        (b"0", 0x30, 0x39),  # digits
        (b"g", 0xCE, 0xCF),  # Greek
        (b"s", 0xD6, 0xDB),  # Hebrew, Arabic
        (b"i", 0xE0, 0xE0),  # Indic scripts, Thai
        (b"u", 0xE1, 0xED),  # East Asia; E2 is cleared below
        (b".", 0xE2, 0xE2),
        (b"v", 0xEF, 0xEF),  # variants
        (b"x", 0xF0, 0xF0),  # beyond the Basic Multilingual Plane
    ):
        table[first : last + 1] = shape * (last - first + 1)
    return bytes(table)


_SHAPE = _shapes()
#: In shapes: a capital that may begin a hump, as in `aB` or `a64B`, or end a run of them, as in `ABCd`.
_RISE = re.compile(rb"A(?<=[a0]A)")
_FALL = re.compile(rb"AAA(?=a)")
_EMOJI_BYTES = re.compile(rb"\xe2[\x8c-\x8f\x96-\x9e\xa4\xac\xad]")


def extra_tokens(text: str) -> str:
    """The tokens that the tokenizer would miss, joined by blanks; '' for ordinary prose.

    >>> extra_tokens("Call getUserName() in C++ 😀")
    'get user name cplusplus u1f600'
    >>> extra_tokens("数据库"), extra_tokens("It's an ordinary sentence, isn't it?")
    ('数据 据库 库', '')
    """
    raw = text.encode("utf-8", "replace")
    shape = raw.translate(_SHAPE)
    tokens: list[str] = []
    if _RISE.search(shape) or (b"AAA" in shape and _FALL.search(shape)):
        tokens += _camel_tokens(raw, shape)
    if "+" in text or "#" in text:
        tokens += sign_words(text)
    if len(raw) != len(text):
        tokens += _wide_tokens(text, raw, shape)
    return " ".join(tokens)


def _camel_tokens(raw: bytes, shape: bytes) -> list[str]:
    words: dict[bytes, None] = {}
    end = 0
    rises = [rise.start() for rise in _RISE.finditer(shape)]
    if b"AAA" in shape:
        rises = sorted(rises + [fall.start() for fall in _FALL.finditer(shape)])
    for rise in rises:
        if rise >= end:
            start = max(shape.rfind(b".", end, rise) + 1, end)
            end = shape.find(b".", rise)
            end = len(shape) if end < 0 else end
            words[raw[start:end]] = None
    return [piece for word in words for piece in camel_parts(word.decode("ascii", "ignore"))]


def _wide_tokens(text: str, raw: bytes, shape: bytes) -> list[str]:
    tokens: list[str] = []
    if b"v" in shape and _VARIANT.search(text):
        plain = (unicodedata.normalize("NFKC", word) for word in WORD.findall(text) if _VARIANT.search(word))
        tokens += [word for word in plain if not _UNSPACED.search(word)]
        text = unicodedata.normalize("NFKC", text)
    if b"g" in shape or "ё" in text or "Ё" in text:
        accented = [(word.lower(), fold_text(word)) for word in WORD.findall(text) if _INDEX_TEXT_ACCENTED.search(word)]
        tokens += [folded for word, folded in accented if folded != word]
    if b"u" in shape or b"i" in shape or b"x" in shape or b"v" in shape:
        for run in _UNSPACED.findall(text):
            tokens += letter_pairs(run)
    if b"s" in shape or b"i" in shape:
        bare = [(word, without_vowel_signs(word)) for word in _SIGNED.findall(text)]
        tokens += [kept for word, kept in bare if kept and kept != word]
    if b"x" in shape or _EMOJI_BYTES.search(raw):
        tokens += emoji_tokens(text)
    return tokens


def camel_parts(word: str) -> list[str]:
    """The pieces of a camelCase identifier in lower case; empty when it has one piece or looks like a digest.

    >>> camel_parts("parseHTTPResponse2"), camel_parts("deploy"), camel_parts("LLMs")
    (['parse', 'http', 'response2'], [], [])
    """
    pieces = _HUMP.findall(word) if word.isascii() else []
    if len(pieces) < 2 or len(word) > _IDENTIFIER_CHARS or len(word) < _HUMP_CHARS * len(pieces):
        return []
    return [piece.lower() for piece in pieces]


def sign_words(text: str) -> list[str]:
    """Names that end in signs, as words.

    >>> sign_words("C++ or F#, not a+b")
    ['cplusplus', 'fsharp']
    """
    found = [(text[sign.start() - 1].lower(), "plusplus") for sign in _PLUSPLUS.finditer(text)]
    found += [(text[sign.start() - 1].lower(), "sharp") for sign in _SHARP.finditer(text)]
    return [letter + name for letter, name in dict.fromkeys(found)]


def letter_pairs(run: str) -> list[str]:
    """Pairs of adjacent letters in a script without spaces, then the last letter alone.

    One letter is so found as the beginning of a pair, and a word as the row of its pairs.

    >>> letter_pairs("数据库"), letter_pairs("库")
    (['数据', '据库', '库'], ['库'])
    """
    letters = _UNSPACED_MARK.sub("", run)
    return [*map(add, letters, letters[1:]), *letters[-1:]]


def unspaced_runs(text: str) -> list[str]:
    """The runs of `text` in scripts without spaces between words."""
    return _UNSPACED.findall(text)


def without_vowel_signs(word: str) -> str:
    return "".join(char for char in word if unicodedata.category(char)[0] != "M")


def emoji_tokens(text: str) -> list[str]:
    """The emoji of `text` as words, without repetition.

    >>> emoji_tokens("ok 👍👍 ✅")
    ['u1f44d', 'u2705']
    """
    found = _EMOJI.findall(text)
    return [f"u{ord(char):x}" for i, char in enumerate(found) if i == 0 or char != found[i - 1]]

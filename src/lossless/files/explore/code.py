"""Outlines of source code in a dozen languages: imports and definitions, one line each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.files.explore.phrases import ITEM_CHARS, SMALL_CHARS, count_list, list_item, list_items

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LANGUAGES", "code_summary"]


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns for a language's imports and definitions; each matches the beginning of a line."""

    name: str
    imports: re.Pattern[str]
    definitions: re.Pattern[str]
    #: Definitions inside a class; shown for large files only.
    members: re.Pattern[str] | None = None


def _at_line(*patterns: str, ignore_case: bool = False) -> re.Pattern[str]:
    return re.compile("^(?:" + "|".join(patterns) + ")", re.MULTILINE | (re.IGNORECASE if ignore_case else 0))


_NEVER = re.compile(r"(?!)")
_MODIFIERS = (
    "public|private|protected|internal|fileprivate|static|final|abstract|sealed|partial|async|override|virtual|default"
    "|synchronized|readonly|unsafe|extern|open|data|inline|suspend|mutating|case|implicit|lazy"
)
_ACCESS = rf"(?:(?:{_MODIFIERS})[ \t]+)"
_C_FUNCTION = (
    r"(?!(?:if|for|while|switch|return|else|do|typedef|using|case|struct|class)\b)[A-Za-z_][\w \t*&:<>,~]{0,160}"
    r"\([^;{}\n]{0,400}\)[ \t]*\w{0,20}[ \t]*(?:\{|$)"
)
_METHOD = rf"[ \t]{{1,12}}{_ACCESS}+[\w<>\[\],.? \t]{{1,120}}\([^;\n]{{0,300}}"

_PYTHON = Language(
    "Python",
    _at_line(r"import[ \t]+\S", r"from[ \t]+\S+[ \t]+import\b"),
    _at_line(r"(?:async[ \t]+)?def[ \t]+\w", r"class[ \t]+\w"),
    _at_line(r"(?: {2,4}|\t)(?:async[ \t]+)?def[ \t]+\w", r"(?: {2,4}|\t)class[ \t]+\w"),
)
_JAVASCRIPT = Language(
    "JavaScript/TypeScript",
    _at_line(
        r"import\b(?![ \t]*\()",
        r"(?:const|let|var)[ \t][^=\n]{1,300}=[ \t]*require\(",
        r"export[ \t][^\n]{0,300}?\bfrom[ \t]+['\"]",
    ),
    _at_line(
        r"(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+)?(?:abstract[ \t]+)?(?:async[ \t]+)?(?:const[ \t]+)?"
        r"(?:function\b|class\b|interface[ \t]|type[ \t]+[\w$]+[^=\n]{0,200}=|enum[ \t]|namespace[ \t])",
        r"(?:export[ \t]+)?(?:const|let|var)[ \t]+[\w$]+[ \t]*(?::[^=\n]{0,200})?=[ \t]*(?:async[ \t]*)?"
        r"(?:function\b|\([^)\n]{0,300}\)[ \t]*(?::[^=\n]{0,100})?=>|[\w$]+[ \t]*=>|class\b)",
        r"(?:module\.)?exports(?:\.[\w$]+)?[ \t]*=",
    ),
    _at_line(
        r"[ \t]{1,4}(?:(?:public|private|protected|static|async|get|set|readonly)[ \t]+){0,4}"
        r"(?!(?:if|for|while|switch|return|catch|function)\b)[\w$#]{1,120}[ \t]*\([^;\n]{0,300}\{[ \t]*$"
    ),
)
_GO = Language(
    "Go",
    _at_line(r"import[ \t]+[\"\w.]", r"\t(?:[\w.]+[ \t]+)?\"[^\"\n]{1,200}\"[ \t]*$"),
    _at_line(r"func[ \t]", r"type[ \t]+\w", r"(?:var|const)[ \t]+\w"),
)
_RUST = Language(
    "Rust",
    _at_line(r"(?:pub(?:\([^)\n]{0,40}\))?[ \t]+)?(?:use|extern[ \t]+crate)[ \t]"),
    _at_line(
        r"(?:pub(?:\([^)\n]{0,40}\))?[ \t]+)?(?:(?:async|unsafe|const|default|extern[ \t]+\"[^\"\n]{0,20}\")[ \t]+)*"
        r"(?:fn|struct|enum|trait|impl|mod|type|union|static|const)\b",
        r"macro_rules![ \t]",
    ),
    _at_line(r"[ \t]{1,8}(?:pub(?:\([^)\n]{0,40}\))?[ \t]+)?(?:(?:async|unsafe|const)[ \t]+)*fn[ \t]"),
)
_JAVA = Language(
    "Java",
    _at_line(r"(?:package|import)[ \t]+\w"),
    _at_line(rf"[ \t]{{0,4}}{_ACCESS}*(?:class|interface|enum|record|@interface)[ \t]+\w"),
    _at_line(_METHOD),
)
_C = Language(
    "C/C++",
    _at_line(r"[ \t]*#[ \t]*include\b", r"(?:import|module)[ \t]+[\w.<\"]", r"using[ \t]+namespace[ \t]"),
    _at_line(
        r"(?:typedef[ \t]+)?(?:struct|union|enum(?:[ \t]+class)?|class|namespace)[ \t]+\w[^;\n]{0,200}(?:\{|$)",
        r"template[ \t]*<",
        r"typedef[ \t]",
        r"#[ \t]*define[ \t]+\w+\(",
        _C_FUNCTION,
    ),
)
_CSHARP = Language(
    "C#",
    _at_line(r"(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?[\w.=]"),
    _at_line(rf"[ \t]{{0,8}}{_ACCESS}*(?:class|interface|struct|enum|record|delegate|namespace)[ \t]+\w"),
    _at_line(_METHOD),
)
_RUBY = Language(
    "Ruby",
    _at_line(r"[ \t]*(?:require|require_relative|load|autoload|gem)[ \t(]"),
    _at_line(r"[ \t]{0,2}(?:class|module)[ \t]", r"def[ \t]"),
    _at_line(r"[ \t]{1,8}def[ \t]"),
)
_PHP = Language(
    "PHP",
    _at_line(r"(?:use|namespace)[ \t]+\\?\w", r"(?:require|include)(?:_once)?\b"),
    _at_line(rf"{_ACCESS}*(?:class|interface|trait|enum|function)[ \t]+&?\w"),
    _at_line(rf"[ \t]{{1,8}}{_ACCESS}*function[ \t]+&?\w"),
)
_SHELL = Language(
    "shell", _at_line(r"[ \t]*(?:source|\.)[ \t]+\S"), _at_line(r"function[ \t]+[\w:.-]+", r"[\w:.-]+[ \t]*\(\)")
)
SQL = Language(
    "SQL",
    _NEVER,
    _at_line(
        r"[ \t]*(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?"
        r"(?:(?:TEMP|TEMPORARY|UNIQUE|MATERIALIZED|VIRTUAL|GLOBAL|LOCAL)\s+){0,3}"
        r"(?:TABLE|INDEX|VIEW|TRIGGER|FUNCTION|PROCEDURE|TYPE|SCHEMA|SEQUENCE|DATABASE|EXTENSION)\b",
        ignore_case=True,
    ),
)
_KOTLIN = Language(
    "Kotlin, Swift or Scala",
    _at_line(r"(?:package|import)[ \t]+\w"),
    _at_line(rf"{_ACCESS}*(?:fun|func|class|object|interface|struct|enum|protocol|extension|trait|def|typealias)[ \t]"),
    _at_line(rf"[ \t]{{1,8}}{_ACCESS}*(?:fun|func|def)[ \t]"),
)
LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi", "pyw"), _PYTHON),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte"), _JAVASCRIPT),
    "go": _GO,
    "rs": _RUST,
    "java": _JAVA,
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "ino", "cu"), _C),
    "cs": _CSHARP,
    **dict.fromkeys(("rb", "rake", "gemspec"), _RUBY),
    **dict.fromkeys(("php", "phtml"), _PHP),
    **dict.fromkeys(("sh", "bash", "zsh", "ksh"), _SHELL),
    "sql": SQL,
    **dict.fromkeys(("kt", "kts", "swift", "scala"), _KOTLIN),
}


_MAX_IMPORTS, _MAX_DEFINITIONS, _MAX_MEMBERS = 12, 24, 24
_VERBS = "SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|MERGE|COPY|GRANT|TRUNCATE"
_VERB = re.compile(rf"^[ \t]*({_VERBS})\b", re.MULTILINE | re.IGNORECASE)


def code_summary(text: str, name: str | None, language: Language) -> str:
    """Lines, imports and top-level definitions; members of classes only beyond a few lines."""
    lines = [f"Code exploration summary ({list_item(name or 'unnamed')}):", f"Lines: {text.count(chr(10)) + 1:,}."]
    if language is SQL:
        verbs = Counter(verb.upper() for verb in _VERB.findall(text))
        lines.append(f"Statements: {count_list(verbs.most_common(12)) or 'none detected'}.")
    else:
        imports = list(dict.fromkeys(_lines(language.imports, text)))
        lines.append(list_items("Imports/dependencies", imports, _MAX_IMPORTS, " | "))
    lines.append(list_items("Top-level definitions", list(_lines(language.definitions, text)), _MAX_DEFINITIONS, " | "))
    members = list(_lines(language.members, text)) if language.members and len(text) > SMALL_CHARS else []
    if members:
        lines.append(list_items("Members", members, _MAX_MEMBERS, " | "))
    return "\n".join(lines)


def _lines(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The lines that the pattern matches at the beginning, each cut to a maximum length."""
    for match in pattern.finditer(text):
        start = match.start()
        end = text.find("\n", start, start + ITEM_CHARS)
        yield text[start : end if end >= 0 else start + ITEM_CHARS].strip()

"""Draws the layers of the source from its import graph: `python scripts/draw_layers.py PICTURE [--check]`."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lossless"
#: From the top down; the tests hold the code to the same order.
LAYERS = (
    ("Commands", ("cli",)),
    ("Doors", ("hosts", "serve", "tui", "providers")),
    ("Engine", ("engine",)),
    ("Care", ("maintenance", "transfer")),
    ("Verbs", ("ingest", "compaction", "context", "recall")),
    ("Edges", ("store", "formats", "files", "llm")),
    ("Values", ("model", "settings", "errors")),
)
WHAT = {
    "cli": "the lcm command",
    "hosts": "one adapter a host",
    "serve": "MCP and the proxy",
    "tui": "the terminal interface",
    "providers": "requests and replies",
    "engine": "one class: the only door to an archive",
    "maintenance": "verify, doctor, surgery, backup, forget",
    "transfer": "whole archives in and out",
    "ingest": "what is new is stored",
    "compaction": "history becomes summaries",
    "context": "what the model sees",
    "recall": "search and evidence",
    "store": "all SQL",
    "formats": "messages of others",
    "files": "large payloads",
    "llm": "asking a model",
    "model": "values",
    "settings": "what is configured",
    "errors": "what is raised",
}
WIDTH, HEIGHT, GAP, LEFT = 1000, 62, 16, 130


def package_of(path: Path) -> str:
    """The package or module below the root that a file belongs to."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return {"async_engine": "engine", "__init__": ""}.get(first, first)


def imports() -> Counter[tuple[str, str]]:
    """How many files of a package import another one."""
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        others = {module.split(".")[1] for module in modules if module.startswith("lossless.")}
        found.update((package_of(path), other) for other in others if other != package_of(path))
    return found


def boxes() -> dict[str, tuple[float, float, float]]:
    """Left edge, top edge and width of each package's box."""
    placed = {}
    for row, (_, packages) in enumerate(LAYERS):
        width = (WIDTH - LEFT - GAP * len(packages)) / len(packages)
        for n, package in enumerate(packages):
            placed[package] = (LEFT + n * (width + GAP), 20 + row * (HEIGHT + 34), width)
    return placed


def draw() -> str:
    """The picture as SVG."""
    placed, height = boxes(), 20 + len(LAYERS) * (HEIGHT + 34)
    lines = []
    for (upper, lower), count in sorted(imports().items()):
        if (
            upper in placed
            and lower in placed
            and placed[lower][1] > placed[upper][1]
            and lower not in ("model", "errors")
        ):
            (x1, y1, w1), (x2, y2, w2) = placed[upper], placed[lower]
            start, end = (x1 + w1 / 2, y1 + HEIGHT), (x2 + w2 / 2, y2)
            bend = (start[1] + end[1]) / 2
            lines.append(
                f'<path class="line" stroke-width="{min(0.6 + count / 8, 4):.1f}" d="M{start[0]:.0f},{start[1]:.0f} '
                f'C{start[0]:.0f},{bend:.0f} {end[0]:.0f},{bend:.0f} {end[0]:.0f},{end[1]:.0f}"/>'
            )
    for row, (label, _) in enumerate(LAYERS):
        lines.append(f'<text class="layer" x="14" y="{20 + row * (HEIGHT + 34) + HEIGHT / 2 + 5:.0f}">{label}</text>')
    for package, (x, y, width) in placed.items():
        files = [path for path in SOURCE.rglob("*.py") if package_of(path) == package]
        size = f"{len(files)} files" if len(files) > 2 else ""
        lines.append(f'<rect class="{package}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="8"/>')
        lines.append(f'<text class="name" x="{x + 12:.0f}" y="{y + 25:.0f}">{package}</text>')
        lines.append(f'<text class="size" x="{x + width - 12:.0f}" y="{y + 25:.0f}">{size}</text>')
        lines.append(f'<text class="what" x="{x + 12:.0f}" y="{y + 46:.0f}">{escape(WHAT[package])}</text>')
    style = (
        "text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#1f2937}.name{font-weight:600;font-size:16px}"
        ".what,.size{font-size:12.5px;fill:#4b5563}.size{text-anchor:end}.layer{font-size:13px;fill:#6b7280}"
        "rect{fill:#f8fafc;stroke:#94a3b8}rect.engine{fill:#dbeafe;stroke:#2563eb}rect.store{fill:#fef3c7;stroke:#d97706}"
        ".line{fill:none;stroke:#94a3b8;stroke-opacity:.45}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="The layers of the source; a line is an import, always downwards">\n'
        f'<style>{style}</style>\n<rect width="{WIDTH}" height="{height}" rx="12" style="fill:#fff;stroke:none"/>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def main(arguments: list[str]) -> int:
    """Write the picture, or with `--check` say whether it is up to date."""
    place, picture = Path(arguments[0]), draw()
    if "--check" in arguments:
        return int(not place.exists() or place.read_text(encoding="utf-8") != picture)
    place.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

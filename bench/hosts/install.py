"""Gets the real programs from the package registries, by name and version, into a folder outside of the checkout.

What cannot be got ends the run with a message: a host that was not measured must not look like one that is well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.hosts.openclaw.gateway import install_node, once, with_node

ROOT = Path(__file__).parents[2]


def cache() -> Path:
    """Where everything is kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "lossless-hosts"


def pip_folder(package: str) -> Path:
    """A folder with one Python package in it, without what it depends on."""
    place = cache() / package.replace("==", "-")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(place)]
    once(place, package, lambda name: _run([*pip, name]))
    return place


def npm_program(package: str, program: str) -> Path:
    """A program of an npm package."""
    node = install_node()
    place = cache() / package.strip("@").replace("/", "-").replace("@", "-")
    command = [str(node / "npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]

    def get(name: str) -> None:
        (place / "package.json").write_text('{"private": true}\n')
        _run([*command, name], cwd=place, env=with_node(node))

    once(place, package, get)
    return place / "node_modules" / ".bin" / program


def environment(name: str, *packages: str) -> Path:
    """The Python of a virtual environment with a host's packages and this checkout in it."""
    place = cache() / f"bench-{name}"
    python = place / "bin" / "python"

    def get(_: str) -> None:
        _run([str(ROOT / "scripts" / "venv"), str(place)])
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        _run([*pip, "hatchling", "editables", *packages])
        _run([*pip, "--no-build-isolation", "--editable", str(ROOT)])

    once(place, f"{' '.join(packages)} {ROOT}", get)
    return python


def pinned(*names: str) -> list[str]:
    """Packages in the versions that all tests run with."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = {line.partition("==")[0]: line for line in lines}
    return [found[name] for name in names]


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL)

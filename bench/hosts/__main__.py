"""Drives real hosts with scripted models and measures what reaches the model. `python -m bench.hosts`

Every host is the real program in its real version, installed outside of the checkout. A scripted model plays an agent:
it calls tools, gets outputs of up to 40k tokens, meets errors, and is asked at the end for a detail of the first turns;
in the middle the host is restarted. Aims that are missed are listed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.hosts.drivers import HOSTS, QUICK
from bench.hosts.figures import Run, markdown, measured
from bench.hosts.install import ROOT
from bench.hosts.model import ScriptedModel
from bench.hosts.picture import draw
from bench.hosts.script import turns
from bench.measure import RESULTS, table, write

if TYPE_CHECKING:
    from bench.hosts.host import Host

#: After so many seconds of turns no other one begins, but for the last; with starts all is done within three minutes.
SECONDS = 110
#: The turns that are played in any case: the second one says what the last one asks for.
FIRST = 3
_DOCS = ROOT / "docs"


def main() -> int:
    """Run what was asked for."""
    given = options()
    if given.draw:
        draw_kept()
        return 0
    folder = Path(tempfile.mkdtemp(prefix="lossless-hosts-"))
    runs: list[Run] = []
    for name in given.hosts.split(",") if given.hosts else QUICK if given.quick else HOSTS:
        run = drive(HOSTS[name], folder / name, given)
        runs.append(run)
        print(f"{name}: {run.requests} requests in {run.seconds:.0f} s", file=sys.stderr, flush=True)
        if not given.quick:
            write(kept_as(name, given.budget), [run.plain()], {"input": "bench.hosts.script.turns", "seed": given.seed})
    if given.json:
        print(json.dumps([run.plain() for run in runs], indent=2))
    else:
        table([run.row() for run in runs], "What reached the model")
    faults = [f"{run.host}: {fault}" for run in runs for fault in run.faults()]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print(f"Archives and logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return 1 if faults else 0


def draw_kept() -> None:
    """The picture and the table of the documentation; what has no run in `bench/results` stays as it is there."""
    files = sorted(RESULTS.glob("hosts-*.json"))
    if not files:
        sys.exit(f"no run is kept in {RESULTS}: run some first")
    runs = [Run(**json.loads(file.read_text(encoding="utf-8"))["rows"][0]) for file in files]
    picture, order = _DOCS / "images" / "hosts.svg", list(HOSTS)
    picture.write_text(draw(runs, picture.read_text(encoding="utf-8"), order), encoding="utf-8")
    page = _DOCS / "hosts" / "measured.md"
    before, mark, rest = page.read_text(encoding="utf-8").partition("<!-- table -->\n")
    rows, end, after = rest.partition("<!-- end of table -->\n")
    page.write_text(before + mark + markdown(runs, rows, order) + end + after, encoding="utf-8")


def kept_as(name: str, budget: int | None = None) -> str:
    """The name of the file of figures: one for each host, and one more for each budget that was asked for."""
    return f"hosts-{name}" + (f"-{budget}" if budget else "")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.add_argument("--hosts", help=f"some of {', '.join(HOSTS)}; all, unless given")
    parser.add_argument("--turns", type=int, help="how many turns, in place of each host's default")
    parser.add_argument("--budget", type=int, help="tokens that a request may have, in place of each host's default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="after so many no other turn begins but the last"
    )
    parser.add_argument("--quick", action="store_true", help="few hosts and turns")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--draw", action="store_true", help="run nothing: write picture and table of the documentation")
    given = parser.parse_args()
    unknown = set(given.hosts.split(",") if given.hosts else ()) - HOSTS.keys()
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not a host; there are {', '.join(HOSTS)}")
    return given


def drive(kind: type[Host], folder: Path, given: argparse.Namespace) -> Run:
    """All turns of one host, with a restart in the middle."""
    folder.mkdir(parents=True)
    budget = given.budget or (kind.quick_budget if given.quick else kind.default_budget)
    count = given.turns or (kind.quick_turns if given.quick else kind.default_turns)
    script = turns(count, budget, folder / "outputs", given.seed)
    answers, errors, asked = [], [], []
    with ScriptedModel(budget, kind.refuses and kind.fits, kind.shell) as model:
        host = kind(folder, model.url, budget)
        started = time.monotonic()
        spent = 0.0
        host.start()
        try:
            for turn in script:
                if FIRST <= turn.number < count - 1 and spent > given.seconds and not given.quick:
                    continue
                if turn.number == count // 2:
                    host.restart()
                asked.append(turn)
                model.begin(turn)
                begun = time.monotonic()
                try:
                    answers.append(host.ask(turn.text))
                    if not model.is_done:
                        errors.append(f"turn {turn.number} ended early: {answers[-1][:200]}")
                except Exception as error:  # noqa: BLE001 - whatever a host does wrong is a figure
                    answers.append("")
                    errors.append(f"turn {turn.number}: {type(error).__name__}: {str(error)[:300]}")
                spent += time.monotonic() - begun
        finally:
            host.stop()
        (folder / "errors.json").write_text(json.dumps(errors, indent=2))
        return measured(host, model, asked, answers, errors, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())

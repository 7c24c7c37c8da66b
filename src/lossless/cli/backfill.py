"""`lcm backfill`: the summaries of what was imported."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.backfill_after import Afterwards
from lossless.cli.backfill_options import applied, numbers
from lossless.cli.commands import Command, number, text
from lossless.cli.drafting import prompt_dir_option
from lossless.cli.options import wrong
from lossless.cli.plain import backups, confirm, looking, open_engine, whole
from lossless.cli.surgery import apply_option, yes_option
from lossless.cli.target import targeted
from lossless.cli.writer import Named, reachable, writer_of
from lossless.compaction.summariser import Summariser
from lossless.engine import Engine
from lossless.lifecycle.backfill import Filling, fill
from lossless.lifecycle.outlook import outlook
from lossless.model.summaries import EXTRACTIVE_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.lifecycle.outlook import Outlook
    from lossless.settings import Settings
    from lossless.store.archive import Archive


@click.command("backfill", cls=Command)
@targeted(required=False)
@click.option("--single-root", is_flag=True, help="Fold on until one summary stands for all but the newest part.")
@click.option("--recompact", is_flag=True, help="Fold anew: summaries give way to their messages first.")
@click.option("--transplant-to", metavar="ID", type=number, help="Copy the summaries to this conversation afterwards.")
@click.option("--title", type=text, help="Give the conversation this title, if it has none.")
@numbers
@click.option(
    "--fresh-tail",
    metavar="N",
    type=click.IntRange(1, 1_000_000_000),
    help="Keep this many of the newest messages; else the newest bootstrapMaxTokens tokens stay.",
)
@prompt_dir_option
@click.option(
    "--model",
    metavar="[NAME]",
    is_flag=False,
    flag_value="",
    help="Have the configured model write them, or PROVIDER/MODEL; else they are extracted.",
)
@click.option("--provider", metavar="NAME", type=text, help="Whose model it is, when --model is bare.")
@click.option("--base-url", metavar="URL", type=text, help="Another address of the model's provider.")
@click.option("--max-summaries", "most", metavar="N", type=click.IntRange(1), help="Make at most so many in all.")
@apply_option
@yes_option
@click.pass_context
def backfill(ctx: click.Context, /, target: Target | None, given: dict[str, int], is_real: bool, **more: Any) -> None:
    """Fold the older history of one conversation, or of all, so that everything is below summaries.

    Without --apply nothing is written: it says how many summaries there would be, exactly when they are extracted.
    The newest part of each conversation stays as it is. A copy of the archive is made first; each summary is in place
    when it is written, so the same command goes on after an interruption (without --recompact, which begins again),
    and a second run finds nothing to do. `lcm undo` takes back the last summary, `lcm restore` all of it. Extraction
    uses all cores for long histories. A model is asked as often as it takes, whatever the spending limit is; when it
    fails, the rest is extracted, and the exit code is 1.
    """
    invocation: Invocation = ctx.obj
    asked = _asked(invocation, given, more)
    how = Filling(more["model"] is not None, more["fresh_tail"], more["recompact"], more["single_root"])
    run = _Run(invocation, asked, how, Afterwards(more["title"], more["transplant_to"]), more["most"])
    if target is None and not run.after.is_nothing:
        raise wrong("--title and --transplant-to are for one conversation: name it, such as with --session-key.")
    if more["transplant_to"] is not None and more["most"] is not None:
        raise wrong("--transplant-to copies what was folded to its end: leave --max-summaries out.")
    with looking(invocation) as archive, archive.reading():
        data, planned = run.plan(archive, target, is_real=is_real)
    is_wanted = is_real and (planned or not run.after.is_nothing)
    if is_wanted:
        confirm(run.question(planned), more["yes"])
        data |= run.carry_out(planned, more["prompt_dir"])
    is_well = all(item.get("ok", True) for item in data["items"])
    invocation.emit("backfill", data, ok=is_well)
    ctx.exit(failures.OK if is_well else failures.INTERNAL)


def _asked(invocation: Invocation, given: dict[str, int], more: dict[str, Any]) -> Settings:
    """The settings for this command: the model and the numbers that it names."""
    model, provider, base_url = more["model"], more["provider"], more["base_url"]
    if model is None and (provider is not None or base_url is not None or more["prompt_dir"] is not None):
        raise wrong("--provider, --base-url and --prompt-dir are about a model: say --model, too.")
    asked = applied(reachable(invocation, Named(model or None, provider, base_url)), given)
    if model is not None and not Summariser(asked).has_model:
        hint = "Name one with --model PROVIDER/MODEL or the setting summaryModel, and see `lcm model test`."
        raise failures.fail("no_model", "There is no model to write them.", failures.CONFIG, hint=hint)
    return asked


@dataclass(frozen=True, slots=True)
class _Run:
    """One backfill: what was asked for."""

    invocation: Invocation
    asked: Settings
    how: Filling
    after: Afterwards
    most: int | None

    @property
    def writer(self) -> str:
        return writer_of(self.asked) if self.how.may_ask_model else EXTRACTIVE_MODEL

    def plan(self, archive: Archive, target: Target | None, *, is_real: bool) -> tuple[dict[str, Any], list[Outlook]]:
        """What there is to do, for the envelope; and the conversations in which there is something to do."""
        ids = archive.conversations.active_ids() if target is None else [target.need(archive).id]
        exact = not self.how.may_ask_model and not is_real
        loop = Engine(archive, self.asked, background=False).loop
        found, left = [], self.most if exact else None
        for id_ in ids:
            one = outlook(loop, archive.conversations.get(id_), self.how, extracts=exact, most=left)
            left = None if left is None else left - len(one.passes)
            found.append(one)
        after = {} if self.after.is_nothing else self.after.check(archive, found[0], anew=self.how.recompact)
        planned = [one for one in found if not one.is_idle] if self.after.is_nothing else found
        data = {
            "conversations": len(ids),
            "dryRun": not is_real,
            "backup": None,
            "writer": self.writer,
            "exact": exact,
            "summaries": sum(len(one.passes) for one in planned),
            "items": [_item(one) for one in planned],
            "title": None,
            "transplant": None,
        }
        return data | after, planned

    def question(self, planned: list[Outlook]) -> str:
        """What a person is asked first."""
        count = sum(len(one.passes) for one in planned)
        count = count if self.most is None else min(count, self.most)
        made = f"about {count} summaries in {len(planned)} conversation{'' if len(planned) == 1 else 's'}"
        gone = sum(len(one.unfolded.summary_ids) for one in planned if one.unfolded is not None)
        instead = f" instead of the {gone} that are there" if gone else ""
        price = f", with {count} or more calls of {self.writer}" if self.how.may_ask_model else ""
        copied = "" if self.after.transplant_to is None else f", and copy to conversation {self.after.transplant_to}"
        return f"Make {made}{instead}{price}{copied}?"

    def carry_out(self, planned: list[Outlook], prompt_dir: Path | None) -> dict[str, Any]:
        """Fold, then what follows; for the envelope."""
        count = sum(len(one.passes) for one in planned)
        bar = _progress(self.invocation, count if self.most is None else min(count, self.most))
        items: list[dict[str, Any]] = []
        after: dict[str, Any] = {}
        with open_engine(self.invocation, prompt_dir, self.asked) as engine:
            copy = cache(lambda _label: backups(engine)("backfill"))
            backup = str(copy("")) if any(not one.is_idle for one in planned) else None
            try:
                with bar as advance:
                    self._fold_all(engine, planned, items, advance)
            except KeyboardInterrupt:
                hint = "What was folded so far is in place; `lcm backfill` goes on from there, without --recompact."
                raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint) from None
            if not self.after.is_nothing and all(item["ok"] for item in items):
                after = self.after.do(engine, planned[0].conversation, lambda _label: copy(""))
                backup = str(copy("")) if _changed(after) else backup
        return {"items": items, "summaries": sum(item["summaries"] for item in items), "backup": backup} | after

    def _fold_all(
        self,
        engine: Engine,
        planned: list[Outlook],
        items: list[dict[str, Any]],
        advance: Callable[[int], None] | None,
    ) -> None:
        left = self.most
        heard = (lambda _work, _written: advance(1)) if advance else None
        for one in planned:
            if left == 0:
                return
            made = fill(engine.loop, one.conversation, self.how, most=left, progress=heard)
            left = None if left is None else left - len(made.summary_ids)
            plain = whole(made) | {"summaries": len(made.summary_ids), "ok": made.ok and made.failure is None}
            items.append(_named(one) | plain)


def _changed(after: dict[str, Any]) -> bool:
    """Whether a title was given or summaries were copied."""
    return after["title"] == "given" or (after["transplant"] is not None and after["transplant"]["applied"])


def _item(one: Outlook) -> dict[str, Any]:
    """A conversation in the plan: how much would go below how many summaries."""
    return _named(one) | {
        "summaries": len(one.passes),
        "tokens": sum(work.tokens for work in one.passes if work.kind == "leaf"),
        "unfolded": 0 if one.unfolded is None else len(one.unfolded.summary_ids),
        "roots": one.roots,
    }


def _named(one: Outlook) -> dict[str, Any]:
    return {"conversationId": one.conversation.id, "sessionKey": one.conversation.session_key}


def _progress(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress or not total:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Folding", total)

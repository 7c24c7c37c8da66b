"""`lcm config`, `lcm completion` and `lcm model`: what holds and where it came from, and which model writes summaries;
and the options that choose the model and the source times for one command.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import click

from lossless.cli import failures, options
from lossless.cli.commands import Command, Group, Invocation, command, text_type
from lossless.cli.screen import Data, Screen, pick_json, preview, styled
from lossless.compaction.summariser import Summariser
from lossless.errors import BadSetting, LosslessError, ModelAuth, ModelError
from lossless.llm.completion import Prompt, archive_price, format_cost, list_prices, read_prices
from lossless.llm.credentials import key_variables
from lossless.llm.providers import COMMAND_PROVIDER, PROVIDER_URLS, is_llm_installed
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.settings import SETTINGS, Settings, to_config
from lossless.settings.load import (
    ProcessEnvironment,
    closest_name,
    group_spellings,
    is_toml,
    key_spellings,
    read_config,
    settings_by_key,
)
from lossless.settings.setting import is_time_zone, mask_passwords
from lossless.settings.write import read_plain, remove_value, set_value

if TYPE_CHECKING:
    from lossless.settings.model_rules import ModelCandidate


config = Group("config", help="Show the settings, or set one.")


@command("show", config, short_help="Show all settings, and where they come from.")
def show_settings(invocation: Invocation) -> None:
    """Show all settings, their values, and where each comes from."""
    loaded = invocation.loaded
    data: Data = {
        "raw": _setting_json(dict(loaded.config)),
        "effective": _setting_json(to_config(loaded.settings)),
        "sources": {key: str(source) for key, source in loaded.sources.items() if source.kind != "default"},
        "diagnostics": [
            {"kind": notice.kind, "name": notice.name, "source": str(notice.source), "message": notice.text}
            for notice in loaded.warnings
        ],
        "environmentOverrides": sorted(source.name for source in loaded.sources.values() if source.kind == "env"),
    }
    if screen := invocation.answer("config.show", data):
        values = {one.key: _setting_json(one.dump(getattr(loaded.settings, one.attribute))) for one in SETTINGS}
        rows = [(key, _json(value), data["sources"].get(key, "")) for key, value in values.items()]
        screen.table(("setting", ("value", "rest"), "from"), rows)
        for warning in data["diagnostics"]:
            screen.line(styled(f"{warning['name']} ", "yellow"), f"{warning['message']} (from {warning['source']})")


@command("get", config, short_help="Show one setting.")
@click.argument("path", type=text_type)
def get_setting(invocation: Invocation, path: str) -> None:
    """Show one setting: PATH is its key, such as freshTailCount or autoRotateSessionFiles.enabled."""
    loaded = invocation.loaded
    setting, group = settings_by_key().get(path), group_spellings().get(path)
    if setting is not None:
        given = [loaded.config[name] for name in setting.config_names if name in loaded.config]
        effective, sources = setting.dump(getattr(loaded.settings, setting.attribute)), [loaded.sources[setting.key]]
    elif group is not None:
        inside = {key.partition(".")[2]: value for key, value in loaded.config.items() if key.startswith(f"{group}.")}
        given, effective = [inside] if inside else [], to_config(loaded.settings).get(group)
        sources = [source for key, source in loaded.sources.items() if key.startswith(f"{group}.")]
    else:
        raise _unknown(path, "not_found")
    data: Data = {
        "path": path,
        "isSet": bool(given),
        "rawValue": _setting_json(given[0]) if given else None,
        "effectiveValue": _setting_json(effective),
        "source": ", ".join(sorted(set(map(str, sources)))),
    }
    if screen := invocation.answer("config.get", data):
        screen.line(_json(data["effectiveValue"]), styled(f"  from {data['source']}", "dim"))


def _unknown(path: str, code: str) -> failures.CommandFailed:
    meant = closest_name(path, key_spellings())
    hint = f"Did you mean {meant}?" if meant else "`lcm config show` shows all."
    return failures.fail(code, f"There is no setting {path!r}.", failures.NOT_FOUND, hint=hint, path=path)


@command("set", config, short_help="Write one setting into the config file.")
@click.argument("path", type=text_type)
@options.words("value", "VALUE...", kind=str)
@options.dry_run
def set_setting(invocation: Invocation, path: str, value: str, dry_run: bool) -> None:
    """Write one setting into the config file: PATH is its key, VALUE a plain value or JSON."""
    if path not in key_spellings() and path not in group_spellings():
        raise _unknown(path, "bad_setting")
    setting = settings_by_key().get(path)
    file = config_file(invocation)
    if value.strip().lower() == "default":
        written = remove_value(file, path, dry_run=dry_run)
    else:
        try:
            wanted = json.loads(value) if setting is None else read_plain(setting, value)
        except ValueError as error:
            allowed = str(error) if setting else "JSON"
            raise options.bad_option("VALUE", f"{value!r:.80} is not what {path} can be: {allowed}") from None
        try:
            written = set_value(file, path, wanted, dry_run=dry_run)
        except BadSetting as error:
            if error.source != "config set":  # the file is at fault, not what was typed
                raise
            failure = failures.as_failure(error)
            failure.exit_code = failures.BAD_ARGUMENTS
            raise failure from None
    key, before, after, backup = written
    data: Data = {
        "path": key,
        "oldValue": _setting_json(before),
        "newValue": _setting_json(after),
        "configPath": str(file),
        "backupPath": None if backup is None else str(backup),
    }
    invocation.is_dry_run = dry_run
    if not dry_run:
        invocation.config = str(file)
    if screen := invocation.answer("config.set", data):
        old, new = ("default" if data[key] is None else _json(data[key]) for key in ("oldValue", "newValue"))
        screen.line(styled(f"{data['path']} ", "bold"), f"{old} → {new}")
        is_new = not data["backupPath"] and not data.get("dryRun")
        copied = f"; the old file is {data['backupPath']}" if data["backupPath"] else " (new file)" * is_new
        screen.note(f"in {data['configPath']}{copied}")
        if old != new:
            screen.undo(f"lcm config set {data['path']} {shlex.quote(old)}")


def config_file(invocation: Invocation) -> Path:
    """The file that is read, else the person's own, which is made. A host's file without settings of ours stays so."""
    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    if invocation.config is not None:
        return Path(places.expand(invocation.config)).absolute()
    found = places.find_config()
    if found is None or (not is_toml(found) and not (text := read_config(found)).block and not text.includes_others):
        found = places.user_config
    return found.absolute()


def _setting_json(value: Any) -> Any:
    if isinstance(value, str):
        return mask_passwords(value)
    if isinstance(value, dict):
        return {key: _setting_json(item) for key, item in value.items()}
    return [_setting_json(item) for item in value] if isinstance(value, list | tuple) else value


_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a script for SHELL that completes commands, options and names of conversations."""
    from click.shell_completion import get_completion_class

    name = shell or Path(os.environ.get("SHELL", "")).name
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise options.usage_error(f"Name your shell: {', '.join(_SHELLS)}.")
    if name == "bash":  # session keys have colons, at which bash would begin another word
        click.echo("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}")
    click.echo(found(ctx.find_root().command, {}, "lcm", "_LCM_COMPLETE").source())


def _json(value: Any) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that a command names; what it does not say is as the settings have it."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None

    def settings(self, configured: Settings) -> Settings:
        if self.model is None:
            if self.provider is not None:
                raise options.usage_error("--provider says whose model it is: name the model with --model, too.")
            return configured if self.base_url is None else self._at_base_url(configured)
        name = self.model if self.provider is None else f"{self.provider}/{self.model}"
        asked = replace(configured, summary_model=name, summary_base_url="", fallback_providers=())
        if "/" not in asked.summary_model and not configured.summary_provider:
            raise options.bad_option("--model", "say whose model it is: PROVIDER/MODEL, or with --provider")
        if configured.summary_base_url and _provider(asked) == _provider(configured):
            asked = replace(asked, summary_base_url=configured.summary_base_url)
        return asked if self.base_url is None else self._at_base_url(asked)

    def _at_base_url(self, asked: Settings) -> Settings:
        provider = _provider(asked)
        if provider is None:
            raise options.usage_error("--base-url is the address of a model: name the model with --model, too.")
        parts = urlsplit(str(self.base_url))
        if provider == COMMAND_PROVIDER:
            raise options.bad_option("--base-url", "a command has no address")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise options.bad_option("--base-url", "it is not an address like https://host/v1")
        return replace(asked, summary_base_url=str(self.base_url))


provider_option = options.text("--provider", metavar="NAME", help="The provider, when --model does not name it.")
base_url_option = options.text("--base-url", metavar="URL", help="Another address of the model's provider.")
#: Options that name a model for this command alone; it gets `named`.
model_options = options.gathered(
    "named",
    ModelChoice,
    options.text("--model", metavar="NAME", help="PROVIDER/MODEL to ask this time; else the setting summaryModel."),
    provider_option,
    base_url_option,
)


def writer_name(settings: Settings) -> str:
    """The first model that would write; without one, the mark of extracted texts."""
    return next((candidate.name for candidate in Summariser(settings).candidates()), EXTRACTIVE_MODEL)


def settings_with_model(invocation: Invocation, named: ModelChoice) -> Settings:
    """The settings for this command; a model that it names and that could not be asked is an error at once."""
    settings = named.settings(invocation.loaded.settings)
    if named.model is None and named.base_url is None:
        return settings
    summariser = Summariser(settings)
    hint = "--base-url gives another address; `lcm model test` says which models are configured, and their keys."
    _check_candidate(summariser, summariser.candidates()[0], hint)
    return settings


def _provider(settings: Settings) -> str | None:
    return next((candidate.provider for candidate in Summariser(settings).candidates()), None)


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """Whether messages and summaries come with their times, and in which zone."""

    are_shown: bool = True
    zone: str | None = None

    @property
    def name(self) -> str:
        return " ".join([*([] if self.are_shown else ["without times"]), *([self.zone] if self.zone else [])])

    def settings(self, configured: Settings) -> Settings:
        if self.zone is not None and not is_time_zone(self.zone):
            raise options.bad_option("--tz", f"{self.zone!r:.80} is not a time zone such as Europe/Berlin")
        if not self.are_shown and self.zone is not None:
            raise options.usage_error("--tz says in which zone times are; with --no-timestamps there are none.")
        if not self.are_shown and not Summariser(configured).has_model:
            raise options.usage_error("--no-timestamps is about what a model reads; name one with --model.")
        return configured if self.zone is None else replace(configured, timezone=self.zone)

    def summariser(self, settings: Settings, prompt_folder: Path | None) -> Summariser:
        """Who writes, with templates of this command's own if named."""
        plain = Summariser(settings, prompt_folder=prompt_folder)
        if self.are_shown:
            return plain
        from lossless.maintenance.surgery.rewriting import complete_without_times

        return replace(plain, connect=lambda candidate: complete_without_times(plain.connector()(candidate)))


_ABOUT_TIMES = "Whether messages are shown with their times.  [default: timestamps]"
#: Options for the times in what a model reads; the command gets `times`.
source_time_options = options.gathered(
    "times",
    SourceTimes,
    click.option("--timestamps/--no-timestamps", "are_shown", default=True, help=_ABOUT_TIMES),
    options.text("--tz", "zone", metavar="ZONE", help="The zone of these times; else the setting timezone."),
)


#: What a model is tried on: a few lines of a transcript.
_SAMPLE = Prompt(
    "Summarise this conversation in two sentences. Keep names, numbers and decisions.",
    "user: The ferry bookings fail on Fridays since the release of 3 March.\n"
    "assistant: The job `seats-sync` runs out of memory at 512 MB. I raised the limit to 1 GB and restarted it.\n"
    "user: Good. Tell Ines, and leave the old limit in a comment.\n"
    "assistant: Done: commit 4f2a9c1, and Ines has a message. The Friday of 10 March will show whether it holds.",
    max_tokens=1024,
    temperature=0.2,
    purpose="test",
    reasoning="low",
)
#: Programs that answer with the login that they have on this machine, and how they are asked.
_LOGGED_IN = {"claude": "claude -p --no-session-persistence", "codex": "codex exec --ephemeral --skip-git-repo-check -"}
_NONE_WORDS = frozenset(("none", "off", "default", EXTRACTIVE_MODEL))
#: Providers of models on this machine, which cost nothing.
_LOCAL_PROVIDERS = frozenset(("ollama", "lmstudio", "vllm", "local"))


@click.group("model", cls=Group, invoke_without_command=True)
@click.pass_context
def model(ctx: click.Context) -> None:
    """Show which model writes summaries, try it, or choose another."""
    if ctx.invoked_subcommand is None:
        invocation: Invocation = ctx.obj
        invocation.format = invocation.format or "table"
        summariser = Summariser(invocation.loaded.settings)
        items = [_candidate_json(summariser, one) | _price_json(invocation, one) for one in summariser.candidates()]
        data: Data = {"configured": bool(items), "writer": writer_name(invocation.loaded.settings), "items": items}
        if screen := invocation.answer("model", data):
            if not data["items"]:
                screen.line("No model writes summaries: they are made of the text itself, at no cost.")
            for number, item in enumerate(data["items"]):
                screen.title(item["name"], "" if number == 0 else "asked if the one before fails")
                screen.record(item | {"price": _price_text(item["price"])}, "name")
            screen.gap()
            screen.line("Choose one:  lcm model use openai/gpt-5-mini  (or ollama/…, claude, URL, none)")
            if data["items"]:
                screen.line("Try it:      lcm model test")


@command("use", model, short_help="Let another model write summaries.")
@click.argument("name", metavar="MODEL", type=text_type)
@options.text("--model", "model_name", metavar="NAME", help="With a base URL: which of its models.")
@options.flag("--no-call", help="Save it without trying it.")
@options.flag("--dry-run", help="Try it, and save nothing.")
def use(invocation: Invocation, name: str, model_name: str | None, no_call: bool, dry_run: bool) -> None:
    """Let MODEL write summaries from now on. It is tried on a sample, then saved in the config file."""
    invocation.format = invocation.format or "table"
    data = use_model(invocation, name, model_name, tries=not no_call, saves=not dry_run)
    invocation.answer("model.use", data, view=print_model_use)


def use_model(
    invocation: Invocation, name: str, model_name: str | None = None, *, tries: bool = True, saves: bool = True
) -> Data:
    """Check a model, try it once, say what it costs here, and save it; raises when it does not answer."""
    now = invocation.loaded.settings
    before = {"before": writer_name(now)}
    if saves:  # what is typed after `lcm model use` to take it back
        model, url = before["before"], now.summary_base_url
        at_url = f"{shlex.quote(url)} --model {shlex.quote(model.partition('/')[2])}" if url else shlex.quote(model)
        before["undo"] = "none" if model == EXTRACTIVE_MODEL else at_url
    if name.strip().lower() in _NONE_WORDS:
        data: Data = {"name": None, **before, "saved": saves, "configPath": None}
        return data | (_save_model(invocation, None, "") if saves else {})
    value, base_url = _model_value(name.strip(), model_name)
    summariser = Summariser(replace(now, summary_model=value, summary_base_url=base_url, fallback_providers=()))
    candidate = next(one for one in summariser.candidates() if one.name == value)
    if tries:
        if candidate.provider != COMMAND_PROVIDER and not is_llm_installed():
            hint = "Run `pip install 'lossless[llm]'`. The models claude and codex, and commands, need no extra."
            message = f"{candidate.name} needs the extra llm, which is not installed."
            raise failures.fail("missing_extra", message, failures.CONFIG, hint=hint)
        _check_candidate(summariser, candidate, _key_hint(candidate))
    data = {"name": value, **before, "saved": saves, "configPath": None}
    data |= _candidate_json(summariser, candidate) | _price_json(invocation, candidate) | {"name": value}
    if tries:
        tried = _try_candidate(summariser, candidate, _SAMPLE)
        if not tried["ok"]:
            hint = _key_hint(candidate) if tried["error"] == ModelAuth.code else _trial_hint(candidate)
            raise failures.fail(tried["error"], tried["message"], failures.INTERNAL, hint=hint, model=value)
        data |= {"tried": tried}
    data["archive"] = None
    if Path(invocation.file_path).exists():
        with invocation.reader() as engine:
            tokens = engine.browse.totals().message_tokens
        data["archive"] = archive_price(tokens, now, data["price"])
    return data | (_save_model(invocation, value, base_url) if saves else {})


def model_suggestions() -> list[tuple[str, str]]:
    """Models that could be used here, each with why: keys in the environment, programs that are installed.

    Where there are none, models that need a key.
    """
    named = (("openai", "gpt-5-mini"), ("anthropic", "claude-haiku-4-5"), ("google", "gemini-2.5-flash"))
    keys = {f"{provider}/{name}": key_variables(provider)[0] for provider, name in named}
    found = [(name, f"{variable} is set") for name, variable in keys.items() if os.environ.get(variable)]
    found += [(name, "with its login on this machine") for name in _LOGGED_IN if shutil.which(name)]
    found += [("ollama/NAME", "a model on this machine")] if shutil.which("ollama") else []
    found = found or [(name, f"needs the variable {variable}") for name, variable in keys.items()]
    return [*found, ("none", "summaries are made of the text itself, at no cost")]


def _model_value(name: str, model_name: str | None) -> tuple[str, str]:
    """What the settings summaryModel and summaryBaseUrl must be for what a person named."""
    if name.startswith(("http://", "https://")):
        return _model_at(name.rstrip("/"), model_name)
    if model_name is not None:
        raise options.usage_error("--model goes with a base URL.")
    provider, slash, rest = name.partition("/")
    if name.startswith(f"{COMMAND_PROVIDER}/"):
        return name, ""
    if command := _LOGGED_IN.get(name.lower()):
        if shutil.which(name.lower()) is None:
            hint = "Install it and log in, or name a model such as openai/gpt-5-mini."
            raise failures.fail("model_denied", f"There is no program {name!r} here.", failures.CONFIG, hint=hint)
        return f"{COMMAND_PROVIDER}/{command}", ""
    if slash and rest and provider.lower() in PROVIDER_URLS:
        return f"{provider.lower()}/{rest}", ""
    try:
        program = shlex.split(name)[:1]
    except ValueError as error:
        raise options.bad_option("MODEL", f"{name!r:.80} is no command line: {error}") from None
    if program and shutil.which(os.path.expanduser(program[0])):
        return f"{COMMAND_PROVIDER}/{name}", ""
    known, _ = list_prices()
    near = [one for one in known if one.partition("/")[2] == name] or get_close_matches(name, known, 1, 0.6)
    hint = f"Did you mean {near[0]}? " if near else ""
    providers = ", ".join(PROVIDER_URLS)
    hint += f"Write PROVIDER/MODEL with one of {providers}; or a base URL, claude, codex, a command, or none."
    raise failures.fail("bad_arguments", f"There is no model {name!r:.80}.", hint=hint)


def _model_at(url: str, model_name: str | None) -> tuple[str, str]:
    host = urlsplit(url).hostname or ""
    provider = "local" if host in ("localhost", "127.0.0.1", "::1") else "custom"
    if model_name is not None:
        return f"{provider}/{model_name}", url
    try:
        with urlopen(f"{url}/models", timeout=10) as answer:
            listed = json.loads(answer.read(1 << 20))
        names = [str(item["id"]) for item in listed["data"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        why, hint = getattr(error, "reason", None) or type(error).__name__, "lcm model use URL --model NAME"
        message = f"{mask_passwords(url)}/models does not list its models: {why}."
        raise failures.fail("model_denied", message, failures.CONFIG, hint=f"Name the model: {hint}.") from None
    if len(names) != 1:
        hint = f"Choose one with --model: {', '.join(names[:20])}." if names else "Load one there first."
        raise failures.fail("bad_arguments", f"{mask_passwords(url)} has {len(names)} models.", hint=hint)
    return f"{provider}/{names[0]}", url


def _check_candidate(summariser: Summariser, candidate: ModelCandidate, hint: str) -> None:
    if candidate.provider != COMMAND_PROVIDER:
        try:
            summariser.connector().endpoint(candidate).check()
        except ModelError as error:
            raise failures.fail(error.code, str(error), failures.CONFIG, hint=hint, model=candidate.name) from None


def _trial_hint(candidate: ModelCandidate) -> str:
    if candidate.provider == COMMAND_PROVIDER:
        return f"The command was: {candidate.model}"
    if candidate.provider in _LOCAL_PROVIDERS:
        return "Start the server and load the model, then run it again. --no-call saves it without trying it."
    return "Nothing was saved. --no-call saves it without trying it."


def _key_hint(candidate: ModelCandidate) -> str:
    names = " or ".join(key_variables(candidate.provider))
    return f"Its key is read from the environment: export {names}=…, and run it again."


def _price_json(invocation: Invocation, candidate: ModelCandidate) -> Data:
    if own := read_prices(invocation.loaded.settings.model_prices).get(candidate.name):
        return {"price": {"input": float(own.input), "output": float(own.output), "from": "modelPrices"}}
    if candidate.provider in _LOCAL_PROVIDERS:
        return {"price": {"input": 0.0, "output": 0.0, "from": "it runs on this machine"}}
    known, as_of = list_prices()
    if (listed := known.get(candidate.name)) is None:
        return {"price": None}
    return {"price": {"input": listed["input"], "output": listed["output"], "from": f"list price of {as_of}"}}


def _save_model(invocation: Invocation, value: str | None, base_url: str) -> Data:
    file = config_file(invocation)
    wanted = {"summaryModel": value, "summaryProvider": None, "summaryBaseUrl": base_url or None}
    for key, text in wanted.items():
        if text is None:
            if file.exists():
                remove_value(file, key)
        else:
            set_value(file, key, text)
    variables = [name for name in ("LCM_SUMMARY_MODEL", "LCM_SUMMARY_PROVIDER") if os.environ.get(name)]
    return {"saved": True, "configPath": str(file), "overriddenBy": variables}


def print_model_use(screen: Screen, data: Data) -> None:
    if data["name"] is None:
        screen.line("Summaries are made of the text itself from now on." if data["saved"] else "Nothing was changed.")
        if data["saved"] and data["before"] != EXTRACTIVE_MODEL:
            screen.undo(f"lcm model use {data['undo']}")
        return
    screen.title(data["name"], "" if data["saved"] else "not saved (--dry-run)")
    tried, here = data.get("tried", {}), data["archive"] or {}
    cost = f"; about ${here['cost']:,.2f} to summarise all of them once" if here.get("cost") else ""
    shown = {
        "key": data["keyFrom"] or "none",
        "price": _price_text(data["price"]),
        "tried": f"{tried['seconds']:.1f} s" if tried else "",
        "answer": tried.get("answer"),
        "thisArchive": f"{here['messageTokens']:,} tokens of messages{cost}" if here else "",
        "savedIn": data["configPath"],
    }
    screen.record(shown)
    if data["saved"] and data["before"] != data["name"]:
        screen.undo(f"lcm model use {data['undo']}")
    if data.get("problem"):
        screen.warn(f"It cannot be asked yet: {data['problem']}")
    if data.get("overriddenBy"):
        names = " and ".join(data["overriddenBy"])
        screen.warn(f"{names} is set in the environment, and wins over the config file.")


def _price_text(price: Data | None) -> str:
    if price is None:
        return "unknown; state it in the setting modelPrices"
    if not price["input"] and not price["output"]:
        return f"nothing: {price['from']}"
    return f"${price['input']:g} in, ${price['output']:g} out, for a million tokens ({price['from']})"


@command("test", model, short_help="Ask each model for one word.")
@options.flag("--no-call", help="Only list them.")
def check_models(invocation: Invocation, no_call: bool) -> None:
    """List the models that write summaries, in the order in which they are asked, and ask each for one word."""
    summariser = Summariser(invocation.loaded.settings)
    items = [
        _candidate_json(summariser, candidate) | ({} if no_call else _try_candidate(summariser, candidate))
        for candidate in summariser.candidates()
    ]
    answers = [item["name"] for item in items if item.get("ok")]
    data: Data = {
        "configured": bool(items),
        "summaries": "written" if items else "extracted",
        "writer": answers[0] if answers else items[0]["name"] if items else EXTRACTIVE_MODEL,
        "items": items,
    }
    if screen := invocation.answer("model.test", data, ok=no_call or not items or bool(answers)):
        if not data["configured"]:
            screen.line(styled("Summaries are extracted: no model is configured.", "bold"))
            screen.line("Choose one with `lcm model use PROVIDER/MODEL`, or with LCM_SUMMARY_MODEL.")
            return
        for item in items:
            verdict = "" if "ok" not in item else "answers" if item["ok"] else "no answer"
            screen.title(item["name"], "cannot be asked" if "problem" in item else verdict)
            screen.record(item, "name", "ok")


def _candidate_json(summariser: Summariser, candidate: ModelCandidate) -> Data:
    """Where a model is and where its key comes from; `problem` says why it could not be asked."""
    item: Data = {"name": candidate.name, "namedBy": candidate.source, "address": None, "keyFrom": None}
    if candidate.provider == COMMAND_PROVIDER:
        return item | {"address": candidate.model}
    try:
        endpoint = summariser.connector().endpoint(candidate)
        key = endpoint.credential
        item |= {"address": mask_passwords(endpoint.address), "keyFrom": None if key is None else key.source}
        endpoint.check()
    except ModelError as error:
        return item | {"problem": str(error)}
    return item


def _try_candidate(summariser: Summariser, candidate: ModelCandidate, prompt: Prompt | None = None) -> Data:
    """What came of asking it once, for one word if nothing else."""
    answer, seconds = summariser.trial(candidate, prompt)
    if isinstance(answer, LosslessError):
        return {"ok": False, "seconds": seconds, "error": answer.code, "message": str(answer)}
    known = {"ok": True, "seconds": seconds, "answer": preview(answer.text)}
    used = pick_json(answer.usage, "input_tokens", "output_tokens")
    return {**known, **used, "cost": format_cost(answer.usage.cost)}

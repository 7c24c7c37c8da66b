"""Callable models: HTTP providers, an external command, the host's own callable, and how one is made."""

from __future__ import annotations

import atexit
import importlib.util
import inspect
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless import errors
from lossless.llm import completion, response
from lossless.llm.completion import Complete, Completion, Prompt, Usage
from lossless.llm.credentials import (
    Credential,
    CredentialSources,
    custom_provider,
    key_variables,
    known_providers,
    resolve_credential,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings

    from lossless.settings.model_rules import ModelCandidate, ModelPrice

    _Tap: TypeAlias = Callable[[Any], Awaitable[None]]
    _Model: TypeAlias = AnthropicModel | OpenAIChatModel | OpenAIResponsesModel

Api: TypeAlias = Literal["openai-completions", "openai-responses", "anthropic-messages"]
APIS: tuple[Api, ...] = ("openai-completions", "openai-responses", "anthropic-messages")
#: Base URLs of known providers.
PROVIDER_URLS: dict[str, str] = {name: known["url"] for name, known in known_providers().items()}
_MISSING = 'this model needs the extra "llm": pip install "lossless[llm]"'
_NO_KEY = "no-key"
#: Anthropic counts thinking against the answer's limit: below this, thinking is off.
_ROOM_FOR_THINKING = 4096
_OAUTH_HEADERS = {"anthropic-beta": "oauth-2025-04-20"}
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    provider: str
    model: str
    base_url: str | None = None
    api: Api | None = None
    credential: Credential | None = None

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def dialect(self) -> Api:
        """The API dialect: explicit, else by the provider's name."""
        if self.api is not None:
            return self.api
        if self.provider == "anthropic":
            return "anthropic-messages"
        return "openai-responses" if self.provider == "openai-responses" else "openai-completions"

    @property
    def address(self) -> str:
        """The base URL: explicit, else the provider's own. Raises `ModelDenied` without either."""
        address = self.base_url or PROVIDER_URLS.get(self.provider)
        if address is None:
            raise errors.ModelDenied(f"provider {self.provider!r} is not known: give its base URL")
        return address

    @property
    def secret(self) -> str:
        """The key to send. Raises `ModelAuth` when the provider requires one and there is none."""
        if self.credential is not None:
            return self.credential.secret
        if known_providers().get(self.provider, {}).get("needsNoKey") or self.base_url is not None:
            return _NO_KEY
        variables = " or ".join(key_variables(self.provider))
        raise errors.ModelAuth(f"no credential for provider {self.provider!r}: set {variables}")

    def check(self) -> None:
        """Raises what `address` or `secret` would raise, before anything is imported or sent."""
        _ = self.address, self.secret


def provider_model(endpoint: Endpoint, timeout_seconds: float = 60.0, price: ModelPrice | None = None) -> Complete:
    """A provider's model as a callable. It makes one request and never retries."""

    def complete(prompt: Prompt, /) -> Completion:
        import asyncio

        if not is_llm_installed():
            raise errors.ModelDenied(_MISSING)
        endpoint.check()

        def run() -> Completion:  # in its own event loop: the calling thread may already have one
            return asyncio.run(_ask(endpoint, prompt, timeout_seconds))

        answer, error = completion.run_within(run, timeout_seconds + _GRACE_SECONDS)
        if answer is None:
            raise completion.as_lossless_error(error)
        return replace(answer, usage=completion.with_cost(answer.usage, price))

    return complete


def is_llm_installed() -> bool:
    return importlib.util.find_spec("pydantic_ai") is not None


async def _ask(endpoint: Endpoint, prompt: Prompt, seconds: float) -> Completion:
    import asyncio

    from pydantic_ai import exceptions

    bodies: list[object] = [None]  # the last JSON response, for fields that the client library drops

    async def tap(answer: Any) -> None:
        if "json" in answer.headers.get("content-type", ""):
            try:
                bodies[0] = json.loads(await answer.aread())
            except ValueError:
                bodies[0] = None

    try:
        async with asyncio.timeout(seconds):
            answer = await _request(endpoint, prompt, tap, seconds)
        return _completion(endpoint.name, answer, bodies[0])
    except ImportError as error:
        raise errors.ModelDenied(_MISSING) from error
    except TimeoutError:
        raise errors.ModelTimeout(f"{endpoint.name}: no answer within {seconds:g} s") from None
    except exceptions.ModelAPIError as error:
        raise _api_failure(endpoint, error) from None
    except exceptions.UnexpectedModelBehavior as error:
        return _odd_answer(endpoint, bodies[0], error)
    except exceptions.UserError as error:
        raise errors.ModelError(f"{endpoint.name}: {_redact(endpoint, error.message)}") from None


async def _request(endpoint: Endpoint, prompt: Prompt, tap: _Tap, seconds: float) -> ModelResponse:
    """The response through our own client, which never retries."""
    from pydantic_ai import exceptions
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

    client, model = (_anthropic if endpoint.dialect == "anthropic-messages" else _openai)(endpoint, tap, seconds)
    async with client:
        settings = _settings(endpoint, model, prompt)
        system = [SystemPromptPart(prompt.system)] if prompt.system else []
        messages = [ModelRequest(parts=[*system, UserPromptPart(prompt.user)])]
        try:
            return await model_request(model, messages, model_settings=settings, instrument=False)
        except exceptions.ModelRequestRejectedError as error:
            if "temperature" not in settings or "temperature" not in str(error):
                raise
            settings.pop("temperature")
            return await model_request(model, messages, model_settings=settings, instrument=False)


def _anthropic(endpoint: Endpoint, tap: _Tap, seconds: float) -> tuple[AsyncAnthropic, _Model]:
    import anthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    bearer = endpoint.credential is not None and endpoint.credential.kind == "bearer"
    client = anthropic.AsyncAnthropic(
        api_key=None if bearer else endpoint.secret,
        auth_token=endpoint.secret if bearer else None,
        base_url=endpoint.address,
        default_headers=_OAUTH_HEADERS if bearer else None,
        max_retries=0,
        timeout=seconds,
        http_client=anthropic.DefaultAsyncHttpxClient(event_hooks={"response": [tap]}, timeout=seconds),
    )
    return client, AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))


def _openai(endpoint: Endpoint, tap: _Tap, seconds: float) -> tuple[AsyncOpenAI, _Model]:
    import openai
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    client = openai.AsyncOpenAI(
        api_key=endpoint.secret,
        base_url=endpoint.address,
        max_retries=0,
        timeout=seconds,
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [tap]}, timeout=seconds),
    )
    provider = OpenAIProvider(openai_client=client)
    if endpoint.dialect == "openai-responses":
        return client, OpenAIResponsesModel(endpoint.model, provider=provider)
    # OpenAI-compatible servers only know the older name of the limit.
    theirs = (
        None if endpoint.provider == "openai" else OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    )
    return client, OpenAIChatModel(endpoint.model, provider=provider, profile=theirs)


def _settings(endpoint: Endpoint, model: _Model, prompt: Prompt) -> OpenAIResponsesModelSettings:
    settings: OpenAIResponsesModelSettings = {"max_tokens": prompt.max_tokens}
    thinks = model.profile.get("supports_thinking", False) and endpoint.provider != "ollama"
    if endpoint.dialect == "anthropic-messages" and prompt.max_tokens < _ROOM_FOR_THINKING:
        thinks = False
    if prompt.reasoning is not None and thinks:
        settings["thinking"] = prompt.reasoning
    refuses = model.profile.get("openai_supports_reasoning") or model.profile.get(
        "anthropic_disallows_sampling_settings"
    )
    if prompt.temperature is not None and not refuses and "thinking" not in settings:
        settings["temperature"] = prompt.temperature
    if endpoint.dialect == "openai-responses":
        settings["openai_store"] = False
    return settings


def _completion(name: str, answer: ModelResponse, body: object) -> Completion:
    """The library's response as a `Completion`; when it found no text, from the raw response."""
    from pydantic_ai.messages import TextPart

    raw = response.parse_completion(body, name)
    if answer.finish_reason == "content_filter":
        raise errors.ModelBadAnswer(f"{name} refused to answer (content filter)")
    texts = [part.content for part in answer.parts if isinstance(part, TextPart)]
    reason = raw.stop_reason or answer.finish_reason
    return Completion(
        text=response.answer_text(texts) or raw.text,
        model=name,
        usage=Usage(
            answer.usage.input_tokens,
            answer.usage.output_tokens,
            answer.usage.cache_read_tokens,
            answer.usage.cache_write_tokens,
            raw.usage.cost,
        ),
        stop_reason=reason,
        incomplete=response.is_incomplete(reason) or answer.finish_reason == "length",
        blocks=raw.blocks or tuple(part.part_kind for part in answer.parts),
    )


def _odd_answer(endpoint: Endpoint, body: object, error: Exception) -> Completion:
    name = endpoint.name
    if response.answer_is_auth_failure(body):
        raise errors.ModelAuth(f"{name}: {_redact(endpoint, response.error_message(body))}")
    if (problem := response.error_in_response(body)) is not None:
        raise errors.ModelError(f"{name}: {_redact(endpoint, response.error_message(problem))}")
    answer = response.parse_completion(body, name)
    if not answer.text and not answer.blocks:
        raise errors.ModelBadAnswer(f"{name}: an answer of unknown format ({type(error).__name__})")
    return answer


def _api_failure(endpoint: Endpoint, error: ModelAPIError) -> errors.LosslessError:
    """A provider's error as one of ours, with the provider's text and our key masked."""
    from pydantic_ai import exceptions as theirs

    status = getattr(error, "status_code", None)
    lost = f"no connection to {endpoint.address}" if isinstance(error, theirs.ModelConnectionError) else ""
    detail = _redact(endpoint, response.error_message(error.body) or lost or type(error).__name__)
    reason = f"{endpoint.name}: {f'HTTP {status}: ' if status else ''}{detail}"
    if isinstance(error, theirs.ModelAuthenticationError) or status in (401, 403):
        return errors.ModelAuth(reason)
    if isinstance(error, theirs.ModelRateLimitError | theirs.ModelQuotaExceededError) or status in (402, 429):
        return errors.ModelRateLimit(reason, error.retry_after)
    if isinstance(error, theirs.ModelTimeoutError | theirs.ModelRequestTimeout) or status in (408, 504):
        return errors.ModelTimeout(reason)
    if isinstance(error, theirs.ModelContextWindowExceededError) or status == 413:
        return errors.ModelError(f"{endpoint.name}: the prompt is longer than the model's context window")
    return errors.ModelError(reason)


def _redact(endpoint: Endpoint, text: str) -> str:
    return endpoint.credential.redact(text) if endpoint.credential is not None else text


_TAIL_CHARACTERS = 400
#: Set for commands that we run: an agent's program that writes for us does not have that stored as a conversation.
WRITING_VARIABLE = "LCM_WRITING_SUMMARY"
_KILL_WAIT_SECONDS = 2.0


def command_model(command: str | Sequence[str], timeout_seconds: float = 60.0) -> Complete:
    """A program that reads a prompt and prints an answer; without a shell, killed on timeout or at our end."""
    return partial(_run_command, command_arguments(command), timeout_seconds)


def command_arguments(command: str | Sequence[str]) -> list[str]:
    """The arguments of a command line or a list; raises `BadSetting` when it names no program."""
    try:
        arguments = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise errors.BadSetting("summaryModel", command, "command", f"a command line ({error})") from error
    if not arguments:
        raise errors.BadSetting("summaryModel", command, "command", "a command line")
    return arguments


def _run_command(arguments: list[str], timeout_seconds: float, prompt: Prompt, /) -> Completion:
    name = f"command/{os.path.basename(arguments[0])}"
    text = "\n\n".join(piece for piece in (prompt.system, prompt.user) if piece)
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, WRITING_VARIABLE: "1"},
        )
    except OSError as error:
        raise errors.ModelDenied(f"command {arguments[0]!r} cannot be run: {error.strerror}") from error
    at_exit = atexit.register(partial(_end, process, os.getpid()))
    try:
        with process:
            try:
                given = text.encode("utf-8", "surrogatepass")
                output, complaints = process.communicate(given, timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                _end(process, os.getpid())
                try:
                    process.communicate(timeout=_KILL_WAIT_SECONDS)
                except subprocess.TimeoutExpired:
                    for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                        pipe.close()
                raise errors.ModelTimeout(f"{name}: no answer within {timeout_seconds:g} s") from None
    finally:
        atexit.unregister(at_exit)
    if process.returncode != 0:
        tail = complaints.decode("utf-8", "replace").strip()[-_TAIL_CHARACTERS:]
        reason = f"{name}: exit code {process.returncode}{f': {tail}' if tail else ''}"
        raise errors.ModelAuth(reason) if response.text_is_auth_failure(tail) else errors.ModelError(reason)
    return response.parse_completion(output.decode("utf-8", "replace"), name)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the command and its children, unless this process is a fork of its owner."""
    if os.getpid() != owner:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError):  # where there are no groups, or none any more
        process.kill()


#: The provider whose model is a command line: `command/claude -p`.
COMMAND_PROVIDER = "command"


@dataclass(frozen=True, slots=True)
class ModelConnector:
    """Makes the callable of a configured candidate. Other candidates are denied."""

    sources: CredentialSources = field(default_factory=CredentialSources)
    #: Base URLs by provider; they take precedence over the known ones.
    base_urls: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def __call__(self, candidate: ModelCandidate, /) -> Complete:
        if candidate.provider == COMMAND_PROVIDER:
            return command_model(candidate.model, self.timeout_seconds)
        return provider_model(self.endpoint(candidate), self.timeout_seconds, self.prices.get(candidate.name))

    def endpoint(self, candidate: ModelCandidate) -> Endpoint:
        """The endpoint of a candidate; raises `ModelAuth` when its login has expired."""
        base_url, api, _ = custom_provider(candidate.provider, self.sources)
        if api and api not in APIS:
            raise errors.BadSetting("api", api, "models file", ", ".join(APIS))
        return Endpoint(
            candidate.provider,
            candidate.model,
            self.base_urls.get(candidate.provider) or base_url or None,
            next((known for known in APIS if known == api), None),
            resolve_credential(candidate.provider, self.sources, int(self.clock() * 1000)),
        )


def host_model(call: Callable[[Prompt], object], name: str = "host", timeout_seconds: float = 60.0) -> Complete:
    """A host's callable as a model.

    The callable gets the prompt and returns a text, a response object in any provider's shape, or a `Completion`. On a
    denial `ModelDenied` is raised and no other model is tried.
    """

    def complete(prompt: Prompt, /) -> Completion:
        result, error = completion.run_within(lambda: call(prompt), timeout_seconds)
        if error is not None:
            raise _host_failure(name, error)
        if result is None:
            raise errors.ModelDenied(f"{name} has no model")
        if isinstance(result, Completion):
            return replace(result, text=response.strip_reasoning(result.text))
        if inspect.iscoroutine(result):
            result.close()
            raise errors.ModelDenied(f"{name} gave a coroutine: pass a callable that waits for its answer")
        if response.answer_is_auth_failure(result):
            raise errors.ModelAuth(f"{name}: {response.error_message(result) or 'credentials were refused'}")
        if (problem := response.error_in_response(result)) is not None:
            raise _host_failure(name, problem)
        return response.parse_completion(result, name)

    return complete


def _host_failure(name: str, error: object) -> BaseException:
    """`error` as one of ours, by cause: credentials, policy or timeout."""
    if isinstance(error, errors.LosslessError) or (
        isinstance(error, BaseException) and not isinstance(error, Exception)
    ):
        return error
    kinds = (
        (isinstance(error, TimeoutError), errors.ModelTimeout),
        (response.is_auth_failure(error), errors.ModelAuth),
        (response.is_denied_failure(error), errors.ModelDenied),
    )
    kind = next((kind for is_so, kind in kinds if is_so), errors.ModelError)
    ours = kind(f"{name}: {response.error_message(error) or type(error).__name__}")
    ours.__cause__ = error if isinstance(error, BaseException) else None
    return ours

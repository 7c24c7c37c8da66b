"""The shapes of secrets: keys of the usual providers, tokens, private keys, passwords in addresses.

A shape says how a secret looks, not that it is one: what looks alike is masked, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: How every mask begins.
MASK = "[redacted:"


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret; of what `pattern` matches the group `it` is masked, all of it where there is none.

    A text that holds none of the `signs` holds no such secret.
    """

    kind: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]

    def mask(self, text: str) -> str:
        """The text with its secrets masked; the same object when there are none."""
        if not any(sign in text for sign in self.signs):
            return text
        return self.pattern.sub(self._masked, text)

    def _masked(self, found: re.Match[str]) -> str:
        if "it" not in self.pattern.groupindex:
            return masked(self.kind)
        start, end = (place - found.start() for place in found.span("it"))
        return f"{found[0][:start]}{masked(self.kind)}{found[0][end:]}"


def masked(kind: str) -> str:
    """What is stored in the place of a secret."""
    return f"{MASK}{kind}]"


def mask_secrets(text: str) -> str:
    """The text with everything masked that looks like a secret; the same object when nothing does.

    >>> mask_secrets("git clone https://me:hunter22@example.org/a.git")
    'git clone https://me:[redacted:url-password]@example.org/a.git'
    """
    for shape in SHAPES:
        fresh = shape.mask(text)
        text = text if fresh == text else fresh
    return text


def _shape(kind: str, pattern: str, *signs: str) -> Shape:
    return Shape(kind, re.compile(pattern), signs)


_START, _END = r"(?<![A-Za-z0-9_-])", r"(?![A-Za-z0-9_-])"

#: Every shape, the most particular first.
SHAPES: tuple[Shape, ...] = (
    _shape(
        "private-key",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"[^\"]*?(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|(?=\")|\Z)",
        "PRIVATE KEY",
    ),
    _shape("anthropic-key", _START + r"sk-ant-[A-Za-z0-9_-]{20,}", "sk-ant-"),
    _shape("openrouter-key", _START + r"sk-or-[A-Za-z0-9_-]{20,}", "sk-or-"),
    _shape("openai-key", _START + r"sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}", "sk-"),
    _shape("google-key", _START + r"AIza[A-Za-z0-9_-]{35}" + _END, "AIza"),
    _shape("google-token", _START + r"ya29\.[A-Za-z0-9_-]{20,}", "ya29."),
    _shape("google-client-secret", _START + r"GOCSPX-[A-Za-z0-9_-]{20,}", "GOCSPX-"),
    _shape(
        "github-token",
        _START + r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
        "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    ),
    _shape("gitlab-token", _START + r"gl(?:pat|dt|rt|cbt|ptt|oas)-[A-Za-z0-9_-]{20,}", "gl"),
    _shape("slack-token", _START + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}", "xox", "xapp-"),
    _shape(
        "slack-webhook", r"hooks\.slack\.com/services/(?P<it>T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+)", "hooks.slack.com"
    ),
    _shape("aws-key-id", _START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END, "AKIA", "ASIA", "ABIA", "ACCA"),
    _shape(
        "aws-secret-key",
        r"(?i)aws.{0,20}?secret.{0,20}?[\"'\s:=]{1,5}(?P<it>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        "aws", "AWS", "Aws",
    ),
    _shape("stripe-key", _START + r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}", "_live_", "_test_"),
    _shape("stripe-webhook-secret", _START + r"whsec_[A-Za-z0-9+/=]{24,}", "whsec_"),
    _shape("sendgrid-key", _START + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "SG."),
    _shape("twilio-key", _START + r"SK[0-9a-f]{32}" + _END, "SK"),
    _shape("npm-token", _START + r"npm_[A-Za-z0-9]{36}" + _END, "npm_"),
    _shape("pypi-token", _START + r"pypi-[A-Za-z0-9_-]{50,}", "pypi-"),
    _shape("hugging-face-token", _START + r"hf_[A-Za-z0-9]{30,}", "hf_"),
    _shape("groq-key", _START + r"gsk_[A-Za-z0-9]{40,}", "gsk_"),
    _shape("xai-key", _START + r"xai-[A-Za-z0-9]{40,}", "xai-"),
    _shape("replicate-token", _START + r"r8_[A-Za-z0-9]{37}" + _END, "r8_"),
    _shape("digitalocean-token", _START + r"do[opr]_v1_[0-9a-f]{64}", "_v1_"),
    _shape("databricks-token", _START + r"dapi[0-9a-f]{32}" + _END, "dapi"),
    _shape("telegram-token", _START + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}" + _END, ":AA"),
    _shape("azure-key", r"(?i)AccountKey=(?P<it>[A-Za-z0-9+/]{60,}={0,2})", "ccountKey=", "ccountkey="),
    _shape("jwt", _START + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", "eyJ"),
    _shape("url-password", r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>]*:(?P<it>(?!\[redacted:)[^\s/@\"'<>]+)@", "://"),
    _shape(
        "bearer-token",
        r"(?i)\b(?:bearer|token)[ \t]+(?P<it>(?=[A-Za-z0-9._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}={0,2})",
        "earer", "EARER", "oken", "OKEN",
    ),
    _shape(
        "assigned-secret",
        r"\b[A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY)[A-Z0-9_]*[ \t]*=[ \t]*(?:\\?[\"'])?"
        r"(?P<it>(?!\[redacted:)[^\s\"'\\$<>]{8,})",
        "PASSWORD", "PASSWD", "SECRET", "TOKEN", "KEY",
    ),
)  # fmt: skip

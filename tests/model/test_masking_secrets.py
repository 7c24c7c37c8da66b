"""What looks like a secret is masked; everything else stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given

from lossless.model.masking import SECRET_PATTERNS, mask_secrets
from lossless.testing import openai_chat, sample_conversation
from lossless.testing.strategies import hostile_text

A, D = "aB3dE6gH9jK2mN5pQ8sT", "0123456789abcdef"
EXAMPLES = {
    "private-key": f"-----BEGIN RSA PRIVATE KEY-----\n{A}\n-----END RSA PRIVATE KEY-----",
    "anthropic-key": f"sk-ant-api03-{A}",
    "openrouter-key": f"sk-or-v1-{A}",
    "openai-key": f"sk-proj-{A}",
    "google-key": "AIza" + (A * 2)[:35],
    "google-token": f"ya29.{A}",
    "google-client-secret": f"GOCSPX-{A}",
    "github-token": f"ghp_{A}{A}",
    "gitlab-token": f"glpat-{A}",
    "slack-token": "xoxb-1234567890-abcdef",
    "slack-webhook": "https://hooks.slack.com/services/T0AB/B0CD/abcdEFGH",
    "aws-key-id": "AKIAABCDEFGHIJKLMNOP",
    "aws-secret-key": f'aws_secret_access_key = "{A}{A}"',
    "stripe-key": f"sk_live_{A}",
    "stripe-webhook-secret": f"whsec_{A}{A}",
    "sendgrid-key": f"SG.{A}.{A}",
    "twilio-key": f"SK{D}{D}",
    "npm-token": "npm_" + (A * 2)[:36],
    "pypi-token": f"pypi-{A}{A}{A}",
    "hugging-face-token": f"hf_{A}{A}",
    "groq-key": f"gsk_{A}{A}",
    "xai-key": f"xai-{A}{A}",
    "replicate-token": "r8_" + (A * 2)[:37],
    "digitalocean-token": f"dop_v1_{D * 4}",
    "databricks-token": f"dapi{D}{D}",
    "telegram-token": "12345678:AA" + (A * 2)[:33],
    "azure-key": f"AccountKey={A * 4}==",
    "jwt": f"eyJ{A}.eyJ{A}.{A}",
    "url-password": "postgres://me:hunter22@db.example.org/x",
    "bearer-token": f"Authorization: Bearer {A}{A}",
    "assigned-secret": "MY_API_KEY=correcthorse",
}


def test_every_shape_has_an_example() -> None:
    assert [kind for kind, *_ in SECRET_PATTERNS] == list(EXAMPLES)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES.items())
def test_each_shape_is_masked_wherever_it_stands(kind: str, text: str) -> None:
    masked = mask_secrets(f"so it is ({text}), really")
    assert f"[redacted:{kind}]" in masked
    assert (masked.startswith("so it is (") and masked.endswith("), really")) or kind in (
        "private-key",
        "assigned-secret",
    )
    assert not any(secret in masked for secret in (A, "hunter22", "correcthorse", "ABCDEFGHIJKLMNOP", D))
    assert mask_secrets(masked) == masked


def test_a_key_that_was_cut_off_is_a_key() -> None:
    assert mask_secrets(f"-----BEGIN PRIVATE KEY-----\n{A}") == "[redacted:private-key]"


@given(hostile_text())
def test_masking_again_changes_nothing(text: str) -> None:
    masked = mask_secrets(text)
    assert mask_secrets(masked) == masked
    assert masked is text or masked != text


def test_ordinary_talk_stays_as_it_is() -> None:
    for message in openai_chat(sample_conversation()):
        content = message.get("content")
        if isinstance(content, str):
            assert mask_secrets(content) is content
    for text in ("see http://example.org:8080/a@b", "the token is long", "PASSWORD=", "API_KEY=$API_KEY", "sk-short"):
        assert mask_secrets(text) is text

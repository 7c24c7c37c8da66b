"""The page about the terminal interface names every key of every screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.binding import Binding

from lossless.tui.screens import (
    compare,
    context,
    conversations,
    dialogs,
    files,
    page,
    search,
    session_files,
    summaries,
    surgery,
    transcript,
)

PAGE = Path(__file__).parents[2] / "docs" / "tui.md"
SCREENS = (
    page.PaneScreen,
    conversations.SessionsScreen,
    session_files.AgentsScreen,
    session_files.SessionFilesScreen,
    conversations.ConversationScreen,
    summaries.SummariesScreen,
    context.ContextScreen,
    files.LargeFilesScreen,
    context.FocusScreen,
    search.SearchScreen,
    surgery.DoctorScreen,
    dialogs.ConfirmDialog,
    dialogs.DetailDialog,
    surgery.DraftReviewDialog,
    transcript.TranscriptWindowScreen,
    transcript.TranscriptScreen,
    compare.CompareScreen,
)
NAMES = {
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "Esc",
    "backspace": "Backspace",
    "enter": "Enter",
    "left": "←",
    "right": "→",
    "space": "Space",
    "f5": "F5",
    "home": "Home",
    "end": "End",
    "ctrl+r": "Ctrl+R",
    "ctrl+a": "Ctrl+A",
    "down": "↓",
    "tab": "Tab",
}


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.__name__)
def test_every_key_is_documented(screen: type) -> None:
    prose = re.sub(r"```.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`([^`]+)`", prose))
    keys = [
        key
        for binding in screen.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding)
        for key in binding.key.split(",")
    ]
    assert [key for key in keys if NAMES.get(key, key) not in named] == []


def test_no_key_of_a_screen_is_bound_twice() -> None:
    for screen in SCREENS:
        keys = [key for binding in screen.__dict__.get("BINDINGS", ()) for key in binding.key.split(",")]
        assert len(keys) == len(set(keys)), screen

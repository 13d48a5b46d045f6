"""Addresses as people paste them."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.providers import normalise_base_url
from dragoman.providers.provider import fill_holes, holes_of


@pytest.mark.parametrize(
    ("given_url", "plain"),
    [
        ("https://api.x.ai/v1/", "https://api.x.ai/v1"),
        ("https://api.x.ai/v1/chat/completions", "https://api.x.ai/v1"),
        ("https://api.x.ai/v1/chat/completions/", "https://api.x.ai/v1"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
        ("https://api.openai.com/v1/responses", "https://api.openai.com/v1"),
        ("  https://api.x.ai/v1  ", "https://api.x.ai/v1"),
        ("api.x.ai/v1", "https://api.x.ai/v1"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("192.168.1.5:1234/v1", "http://192.168.1.5:1234/v1"),
        ("gpu-box:8000", "http://gpu-box:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("https://host/v1#top", "https://host/v1"),
        (
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
            "https://r.openai.azure.com/openai/deployments/d?api-version=1",
        ),
        ("https://g.com/v1beta/models/gemini-3-pro:generateContent", "https://g.com/v1beta"),
        ("http://localhost:11434/api/chat", "http://localhost:11434"),
        ("https://messages.example.com/v1", "https://messages.example.com/v1"),
    ],
)
def test_a_base_url(given_url: str, plain: str) -> None:
    assert normalise_base_url(given_url) == plain


@pytest.mark.parametrize(
    ("given_url", "settings", "plain"),
    [
        ("http://box:11434", {"wire": "openai_chat"}, "http://box:11434/v1"),
        ("http://box:11434", {"wire": "ollama"}, "http://box:11434"),
        ("http://box:11434", {}, "http://box:11434"),
        ("http://box:8000", {"wire": "openai_chat"}, "http://box:8000"),
        ("http://box:8000", {"default": "http://localhost:8000/v1"}, "http://box:8000/v1"),
        ("http://box:8000/other", {"default": "http://localhost:8000/v1"}, "http://box:8000/other"),
        ("", {"default": "http://localhost:8000/v1"}, "http://localhost:8000/v1"),
    ],
)
def test_a_missing_path_is_the_one_of_the_provider(given_url: str, settings: dict[str, str], plain: str) -> None:
    assert normalise_base_url(given_url, **settings) == plain


@pytest.mark.parametrize("wrong", ["ftp://host/v1", "http://", "http://[::1", "http://host:port/v1", "unix://host/x"])
def test_what_is_no_address_is_told(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"is not (a|the) URL"):
        normalise_base_url(wrong)


@given(st.text(max_size=60) | st.from_regex(r"(https?://)?[a-z.]{1,9}(:\d{1,6})?(/[a-z]{0,9}){0,3}", fullmatch=True))
def test_any_text_is_an_address_that_stays_as_it_is_or_is_told(text: str) -> None:
    try:
        plain = normalise_base_url(text)
    except ConfigError:
        return
    assert normalise_base_url(plain) == plain
    assert plain == "" or urlsplit(plain).scheme in ("http", "https")


def test_holes_are_filled_and_the_others_stay() -> None:
    url = "https://{location}-x.com/{project}/{location}"
    assert holes_of(url) == ("location", "project")
    assert fill_holes(url, {"location": "eu", "project": " "}) == "https://eu-x.com/{project}/eu"

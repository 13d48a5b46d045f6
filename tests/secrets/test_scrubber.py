"""The scrubber as programs use it: styles, vault, sinks, structures."""

from __future__ import annotations

import pytest
from tests.secrets.fakes import TOKENS, draw

from dragoman.errors import ConfigError, DragomanError
from dragoman.secrets import HumanSink, ModelSink, Scrubber, Secrets, Vault, scrub

PASSWORD = draw(16)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=abcdefgh", "password=abcd*[REDACTED]"),
        ("password: abcde", "password: abcd*[REDACTED]"),
        ('password="abcd"', 'password="*[REDACTED]"'),
        ("token = 'abcdefgh1'", "token = 'abcd*[REDACTED]'"),
        ("api_key:abc", "api_key:*[REDACTED]"),
        ("API-KEY=abcdefgh", "API-KEY=abcd*[REDACTED]"),
        ("client_secret: abcdefgh, other: public", "client_secret: abcd*[REDACTED], other: public"),
        ("bearer: abcdefgh", "bearer: abcd*[REDACTED]"),
        ("credential=abcdefgh", "credential=abcd*[REDACTED]"),
        ('{"token": 12345678, "n": null}', '{"token": "1234*[REDACTED]", "n": null}'),
        ('{"token": null}', '{"token": null}'),
        ("nothing to see", "nothing to see"),
    ],
)
def test_the_seed_style_keeps_four_characters_separators_and_quotes(text: str, shown: str) -> None:
    assert scrub(text, style="seed") == shown


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'kind'"):
        scrub("x", style="kinds")


def test_a_closed_scrubber_takes_nothing_more() -> None:
    scrubber = Scrubber()
    assert scrubber.feed("a b") + scrubber.close() == "a b"
    assert scrubber.close() == ""
    with pytest.raises(DragomanError, match="closed"):
        scrubber.feed("more")


def test_a_structure_is_scrubbed_value_by_value() -> None:
    value = {"body": {"access_token": draw(30), "status": "ok", "note": f"use {TOKENS['github']}"}, "count": 3}
    assert scrub(value) == {
        "body": {"access_token": "[redacted:token]", "status": "ok", "note": "use [redacted:github_token]"},
        "count": 3,
    }
    assert scrub([("a", 1), None, 2.5, {"password": 12345678}]) == [
        ("a", 1),
        None,
        2.5,
        {"password": "[redacted:password]"},
    ]


def test_bytes_are_scrubbed_and_stay_bytes() -> None:
    log = b"\xff use " + TOKENS["github"].encode() + b" \xfe"
    assert scrub(log) == b"\xff use [redacted:github_token] \xfe"


def test_the_vault_gives_each_secret_one_placeholder() -> None:
    vault = Vault()
    sink = ModelSink(vault=vault)
    text = f"password={PASSWORD}\nagain: password={PASSWORD}\ntoken={draw(30)}\n"
    hidden = sink.text(text)
    assert hidden == (
        "password=[redacted:password#1]\nagain: password=[redacted:password#1]\ntoken=[redacted:token#2]\n"
    )
    assert len(vault) == 2
    assert PASSWORD not in repr(vault)
    assert sink.text(hidden) == hidden
    edited = hidden.replace("again", "once more")
    assert sink.restore(edited).text == text.replace("again", "once more")


def test_a_placeholder_of_nobody_is_left_and_reported() -> None:
    vault = Vault(tag="k3")
    placeholder = vault.hide("password", PASSWORD)
    assert placeholder == "[redacted:password#k3-1]"
    restored = vault.restore(f"{placeholder} [redacted:password#1] [redacted:password#k3-2] [redacted:password]")
    assert restored.text == f"{PASSWORD} [redacted:password#1] [redacted:password#k3-2] [redacted:password]"
    assert restored.unknown == ("[redacted:password#1]", "[redacted:password#k3-2]")


def test_the_vault_knows_a_number_from_a_string() -> None:
    sink = ModelSink()
    text = '{"password": 12345678, "old_password": "12345678"}'
    hidden = sink.text(text)
    assert "12345678" not in hidden
    assert sink.restore(hidden).text == text


def test_the_human_sink_hides_for_good_and_says_whether_it_does() -> None:
    own = "zz-" + draw(30)
    sink = HumanSink(Secrets({"openai": own}))
    assert sink.text(f"key {own}") == "key [redacted:openai]"
    assert sink.value({"headers": {"x": own}, "argv": ["--password", "x"]}) == {
        "headers": {"x": "[redacted:openai]"},
        "argv": ["--password", "x"],
    }
    assert sink.hides(f"curl -H 'x: {own}'")
    assert not sink.hides("curl https://example.org")
    stream = sink.stream()
    assert stream.feed(f"a {own[:9]}") + stream.feed(own[9:]) + stream.close() == "a [redacted:openai]"


def test_secrets_are_worked_out_once_for_many_texts() -> None:
    own = "zz-" + draw(30)
    secrets = Secrets([own])
    assert [scrub(own, secrets=secrets) for _ in range(2)] == ["[redacted:secret]"] * 2
    assert ModelSink(secrets).value([own]) == ["[redacted:secret#1]"]

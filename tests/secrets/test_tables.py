"""Secrets in objects and sections with a telling name, and numbers under such names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tables import each_row

from dragoman.secrets import Scrubber, scrub

VALUE = "hunter2xyz"
NUMBER = 12345678901


def pieces(text: str, size: int) -> str:
    scrubber = Scrubber()
    return "".join(scrubber.feed(text[at : at + size]) for at in range(0, len(text), size)) + scrubber.close()


@each_row("table", ["credentials", "credential", "creds", "dbCredentials", "secret", "auth", "password"])
@each_row("member", ["value", "data", "secret", "raw", "plaintext", "Value"])
@each_row("held", [VALUE, NUMBER, str(NUMBER)])
def test_the_member_of_a_table_is_hidden(table: str, member: str, held: str | int) -> None:
    plain = str(held)
    for value in (
        {table: {member: held}},
        {table: {"type": "basic", member: held, "count": 3}},
        {"a": [{table: {member: held}}]},
        {table: [{member: held}]},
        {table: {"db": {member: held}}},
    ):
        assert plain not in json.dumps(scrub(value)), value
    quoted = json.dumps(held)
    for text in (
        json.dumps({table: {member: held}}),
        json.dumps({table: {"type": "basic", member: held, "count": 3}}),
        json.dumps({table: {member: held}}, indent=2),
        json.dumps(json.dumps({table: {member: held}})),
        f"{table}:\n  {member}: {quoted}\n",
        f"{table}:\n  - {member}: {plain}\n",
        f"[{table}]\n{member} = {quoted}\nnext = 1\n",
        f"[shop.{table}]\n{member}={plain}\n",
        f"[[{table}]]\n{member} = {quoted}\n",
        f"{table} = {{ {member} = {quoted} }}\n",
    ):
        shown = scrub(text)
        assert plain not in shown, text
        for size in (1, 7):
            assert pieces(text, size) == shown
        if text.startswith("{"):
            json.loads(shown)


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "client_secret", "password", "db_password", "secret", "private_key"]
)
def test_a_number_under_a_telling_name_is_hidden(name: str) -> None:
    assert str(NUMBER) not in json.dumps(scrub({name: NUMBER}))
    for text in (
        json.dumps({name: NUMBER}),
        json.dumps({"a": {name: NUMBER, "b": 1}}),
        f"{name}: {NUMBER}\n",
        f"{name} = {NUMBER}\n",
        f"{name}={NUMBER}\n",
        f"export {name.upper()}={NUMBER}\n",
    ):
        assert str(NUMBER) not in scrub(text), text


BENIGN: list[Any] = [
    {"token": {"type": "Identifier", "value": "foo1"}},
    {"token": 50256},
    {"max_tokens": 4096, "total_tokens": 123456},
    {"session": {"id": 12345}},
    {"tokens": {"value": 123456}},
    {"auth": {"url": "https://a.example/c", "value": "none", "timeout": 30000}},
    {"credentials": {"type": "basic", "host": "db1.example.org", "expires": 1700000000}},
    {"secret": {"name": "db-creds", "namespace": "prod"}},
    {"credentials": {"value": "${DB_PASSWORD}"}},
    {"primary_key": 123456, "key": 1234567, "public_key": 99999},
    {"value": 123456, "data": "hunter2xyz"},
]


@pytest.mark.parametrize("value", BENIGN)
def test_what_is_no_secret_stays(value: Any) -> None:
    assert scrub(value) == value
    for text in (json.dumps(value), json.dumps(value, indent=2)):
        assert scrub(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "secrets: inherit\n",
        '[credentials]\npath = "/etc/x"\n',
        "credentials:\n  name: prod\n",
        "token: 50256\n",
        "[secret]\ndata = true\n",
        "the password\nvalue: 3\n",
        "auth = 4096\n",
    ],
)
def test_benign_text_stays(text: str) -> None:
    assert scrub(text) == text

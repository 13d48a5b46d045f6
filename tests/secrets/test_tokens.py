"""Tokens that their shape gives away, in everything that tools print around them."""

from __future__ import annotations

import zlib

from tests.secrets.fakes import ALNUM, HEX, TOKEN_FORMS, TOKENS, WORD, draw, longest_left
from tests.tables import each_row

from dragoman.secrets import scrub
from dragoman.secrets.vendors import FAMILIES, VENDORS, base62, has_crc32

CASES = [(form, name) for form in TOKEN_FORMS for name in TOKENS]


@each_row(("form", "name"), CASES, ids=[f"{name}, {form}" for form, name in CASES])
def test_a_token_is_hidden_wherever_it_stands(form: str, name: str) -> None:
    token = TOKENS[name]
    text = TOKEN_FORMS[form].replace("@@", token)
    out = scrub(text)
    assert longest_left(token, out) <= max(6, len(token) // 3), out
    before, _, after = TOKEN_FORMS[form].partition("@@")
    assert out.startswith(before)
    assert out.endswith(after)


@each_row(
    "text",
    [
        "See task-management-system-overview-document.md and risk-assessment-matrix.md",
        "sk-learn-pipeline-configuration-template and desk-reservation-service-deployment",
        "Tokens like sk-... and ghp_... must never be committed.",
        "The prefix AKIA marks long-term credentials; ASIA marks temporary ones.",
        "gh" + "p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-" + "your-api-key-goes-here-please",
        "gl" + "pat-********************",
        "npm_config_registry_url npm_lifecycle_script_name",
        "fw_initializeConfigurationManager fw_update_configuration_handler",
        "commit " + draw(40, HEX),
        "docker.io/library/redis@sha256:" + draw(64, HEX),
        "sha512-" + draw(86, ALNUM + "+/") + "==",
        "toolu_01" + draw(22) + " call_" + draw(24) + " chatcmpl-" + draw(29),
        "cus_" + draw(14) + " pi_" + draw(24) + " price_" + draw(24),
        "arn:aws:iam::602304750166:role/deploy-wbum64",
        "https://www.youtube.com/watch?v=" + draw(11, WORD),
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + draw(140, ALNUM + "+/"),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + draw(43, ALNUM + "+/") + " me@host",
        "payment-api-7d4b9c6f5-x2x9z payment-service-canary-6b8c7d9f54-qwert",
        "test_the_parser_reads_every_line_of_the_file_once",
        "trace 00-" + draw(32, HEX) + "-" + draw(16, HEX) + "-01",
        "pk" + "_live_" + "x" * 24,
    ],
)
def test_what_only_looks_like_a_token_stays(text: str) -> None:
    assert scrub(text) == text


def test_the_kind_is_shown() -> None:
    assert scrub(f"x {TOKENS['github']} y") == "x [redacted:github_token] y"
    assert scrub(f"x {TOKENS['aws']} y") == "x [redacted:aws_access_key] y"


def test_a_right_checksum_outweighs_a_suspicious_look() -> None:
    body = "x" * 30
    right = body + base62(zlib.crc32(body.encode()))
    assert has_crc32(right)
    assert not has_crc32(body + "000000")
    assert scrub("gh" + "p_" + right) == "[redacted:github_token]"
    assert scrub("gh" + "p_" + "x" * 36) == "gh" + "p_" + "x" * 36


@each_row("row", VENDORS, ids=[f"{row[0]} {row[1].split()[0]}" for row in VENDORS])
def test_every_row_says_what_it_demands(row: tuple[str, str, str, str]) -> None:
    kind, prefixes, body, demand = row
    assert kind.isidentifier()
    assert kind.islower()
    assert prefixes.split()
    assert body
    assert demand in {"some", "random", "mixed", "crc32"}


def test_every_family_names_its_body() -> None:
    assert all("(?P<body>" in pattern for _, _, pattern, _ in FAMILIES)

"""Secrets that open nothing: drawn from a fixed seed and put together here, so that no scanner finds them."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

from dragoman.secrets import Scrubber

ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"


def draw(size: int, alphabet: str = ALNUM, seed: int = 7) -> str:
    """A random string that is the same in every run."""
    lots = random.Random(f"{size} {alphabet} {seed}")
    return "".join(lots.choice(alphabet) for _ in range(size))


def uuid(seed: int = 7) -> str:
    return "-".join(draw(size, HEX, seed) for size in (8, 4, 4, 4, 12))


def private_key(kind: str = "RSA PRIVATE KEY", lines: int = 12) -> str:
    body = base64.b64encode(draw(48 * lines).encode()).decode()
    rows = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *rows, f"-----END {kind}-----"])


def longest_left(secret: str, out: str) -> int:
    """The length of the longest piece of a secret that can still be read."""
    best = 0
    for start in range(len(secret)):
        while start + best < len(secret) and secret[start : start + best + 1] in out:
            best += 1
    return best


def feed_all(scrubber: Scrubber, text: str, size: int) -> str:
    """What comes out when the text goes in by pieces of this size."""
    pieces = [scrubber.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(pieces) + scrubber.close()


def outline(text: str) -> Any:
    """The structure of a JSON text: how its lists and mappings are nested, and how many values each of them has."""
    # The pairs of a mapping become a tuple, so that two equal names count as two.
    return _outline(json.loads(text, object_pairs_hook=tuple))


def _outline(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_outline(inner) for _, inner in value)
    return [_outline(inner) for inner in value] if isinstance(value, list) else "value"


# What tools print around a token that its own shape gives away.
TOKEN_FORMS = {
    "alone": "@@",
    "assigned": 'export FOO="@@"',
    "logged": "2026-03-02T10:15:04Z INFO sent value=@@ status=200",
    "json": '{"region": "eu", "x": "@@", "debug": false}',
    "escaped": '{"stdout": "{\\"x\\": \\"@@\\"}", "rc": 0}',
    "line of json": '{"stdout": "first\\n@@\\nlast"}',
    "link": "GET https://api.example.com/v2?limit=1&x=@@&page=2 -> 200",
    "prose": "I used (@@) and it worked.",
    "diff": "+CLIENT = Client('@@')",
    "colour": "\x1b[1;31m@@\x1b[0m",
    "encoded": "state%3D@@%26next",
}

TOKENS = {
    "openai": "sk-" + "proj-" + draw(80, WORD),
    "openai old": "sk-" + draw(20) + "T3Blbk" + "FJ" + draw(20),
    "anthropic": "sk-" + "ant-api03-" + draw(93, WORD) + "AA",
    "deepseek": "sk-" + draw(32, HEX),
    "google": "AI" + "za" + draw(35, WORD),
    "groq": "gs" + "k_" + draw(52),
    "xai": "xa" + "i-" + draw(80),
    "hugging face": "h" + "f_" + draw(34),
    "replicate": "r" + "8_" + draw(37),
    "perplexity": "pp" + "lx-" + draw(48),
    "aws": "AK" + "IA" + draw(16, BASE32),
    "aws temporary": "AS" + "IA" + draw(16, BASE32),
    "alibaba": "LT" + "AI" + draw(20),
    "gcp oauth": "ya" + "29." + draw(120, WORD),
    "google client": "GOC" + "SPX-" + draw(28, WORD),
    "digitalocean": "dop" + "_v1_" + draw(64, HEX),
    "github": "gh" + "p_" + draw(36),
    "github app": "gh" + "s_" + draw(36),
    "github fine": "github" + "_pat_" + draw(22) + "_" + draw(59),
    "gitlab": "gl" + "pat-" + draw(20, WORD),
    "gitlab runner": "gl" + "rt-" + draw(20, WORD),
    "npm": "np" + "m_" + draw(36),
    "pypi": "py" + "pi-AgEIcHlwaS5vcmc" + draw(130, WORD),
    "docker": "dckr" + "_pat_" + draw(27, WORD),
    "rubygems": "ruby" + "gems_" + draw(48, HEX),
    "slack bot": "xo" + f"xb-{draw(12, string.digits)}-{draw(13, string.digits)}-{draw(24)}",
    "slack app": "xa" + f"pp-1-A{draw(10, UPPER)}-{draw(13, string.digits)}-{draw(64, HEX)}",
    "stripe": "sk" + "_live_" + draw(24),
    "stripe test": "rk" + "_test_" + draw(24),
    "webhook": "wh" + "sec_" + draw(32),
    "sendgrid": "S" + "G." + draw(22, WORD) + "." + draw(43, WORD),
    "twilio": "S" + "K" + draw(32, HEX),
    "mailgun": "ke" + "y-" + draw(32, HEX),
    "mailchimp": draw(32, HEX) + "-u" + "s12",
    "shopify": "shp" + "at_" + draw(32, HEX),
    "square": "sq0" + "csp-" + draw(43, WORD),
    "notion": "nt" + "n_" + draw(46),
    "linear": "lin" + "_api_" + draw(40),
    "figma": "fi" + "gd_" + draw(40, WORD),
    "airtable": "pa" + "t" + draw(14) + "." + draw(64, HEX),
    "atlassian": "ATA" + "TT3xFfGF0" + draw(170, WORD) + "=" + draw(8, UPPER),
    "new relic": "NR" + "AK-" + draw(27, UPPER),
    "sentry": "snt" + "rys_" + draw(120, ALNUM + "+/"),
    "grafana": "gl" + "sa_" + draw(32) + "_" + draw(8, HEX),
    "postman": "PM" + "AK-" + draw(24, HEX) + "-" + draw(34, HEX),
    "databricks": "da" + "pi" + draw(32, HEX),
    "vault": "hv" + "s." + draw(90, WORD),
    "terraform": draw(14) + ".at" + "lasv1." + draw(67, WORD),
    "tailscale": "ts" + "key-auth-" + draw(12) + "-" + draw(32),
    "age": "AGE-" + "SECRET-KEY-1" + draw(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "hubspot": "pa" + "t-na1-" + uuid(),
    "planetscale": "psc" + "ale_tkn_" + draw(43, WORD),
    "azure client": "ab" + "c8Q~" + draw(34, ALNUM + "_.-"),
    "discord": "M" + draw(23) + "." + draw(6) + "." + draw(38, WORD),
    "telegram": draw(10, "123456789") + ":A" + "A" + draw(33, WORD),
    "jwt": "ey" + "J" + draw(30) + ".ey" + "J" + draw(60) + "." + draw(43, WORD),
    "unknown vendor": "acme" + "_live_" + draw(32),
    "unknown vendor with a dash": "foo-" + "token-" + draw(36),
}

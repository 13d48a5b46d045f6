"""Rows for redaction: invented credentials in what tools print, and what must stay readable beside them.

A credential opens nothing. It is drawn from the name of its row, has the word "fake" in it where the shape allows, and
is stored in pieces, so that no scanner takes a file of this project for a leak. `⟦A⟧` in a text stands for the
credential A, `⟦A:base64⟧` for it in that encoding.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
import zlib
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]

DIGITS = string.digits
ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


def _draw(label: str, size: int, alphabet: str = ALNUM) -> str:
    """Characters that depend on the label alone."""
    letters: list[str] = []
    number = 0
    while len(letters) < size:
        digest = hashlib.sha256(f"dragoman test data {label} {number}".encode()).digest()
        letters += [alphabet[byte % len(alphabet)] for byte in digest]
        number += 1
    return "".join(letters[:size])


def _fake(label: str, size: int, alphabet: str = ALNUM) -> str:
    word = "FAKE" if set("FAKE") <= set(alphabet) else "fa4e" if set("fa4e") <= set(alphabet) else ""
    return word + _draw(label, size - len(word), alphabet)


def _with_checksum(label: str, size: int) -> str:
    """GitHub and npm put the CRC-32 of a token behind it, as six digits of base 62."""
    body = _fake(label, size - 6)
    rest, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = BASE62[digit] + digits
    return body + digits


def _uuid(label: str) -> str:
    return "-".join(_draw(f"{label} {size}", size, HEX) for size in (8, 4, 4, 4, 12))


# ---- tokens that their shape gives away ------------------------------------------------------------------------------

TOKENS: dict[str, list[str]] = {
    "airtable": ["pat", _fake("airtable", 14), ".", _fake("airtable 2", 64, HEX)],
    "alibaba": ["LT", "AI", _fake("alibaba", 20)],
    "anthropic": ["sk-", "ant-", "api03-", _fake("anthropic", 93, WORD), "AA"],
    "apify": ["apify", "_api_", _fake("apify", 36)],
    "asia-key": ["AS", "IA", _fake("asia", 16, BASE32)],
    "atlassian": ["ATA", "TT3", _fake("atlassian", 180, WORD), "=", _draw("atlassian 2", 8, UPPER)],
    "aws": ["AK", "IA", _fake("aws", 16, BASE32)],
    "azure-client": ["zz", "t8Q~", _fake("azure", 34, ALNUM + "_.-")],
    "buildkite": ["bk", "ua_", _fake("buildkite", 40)],
    "cerebras": ["cs", "k-", _fake("cerebras", 48)],
    "circleci": ["CCI", "PAT_", _fake("circleci", 22), "_", _draw("circleci 2", 40, HEX)],
    "clojars": ["CLO", "JARS_", _fake("clojars", 60)],
    "databricks": ["da", "pi", _fake("databricks", 32, HEX)],
    "digitalocean": ["dop", "_v1_", _fake("digitalocean", 64, HEX)],
    "discord": ["M", _fake("discord", 23), ".", _draw("discord 2", 6), ".", _draw("discord 3", 38, WORD)],
    "docker": ["dckr", "_pat_", _fake("docker", 27, WORD)],
    "doppler": ["dp", ".st.", "dev.", _fake("doppler", 43)],
    "figma": ["fi", "gd_", _fake("figma", 40, WORD)],
    "firecrawl": ["f", "c-", _fake("firecrawl", 32, HEX)],
    "gcp-oauth": ["ya", "29.", _fake("gcp", 120, WORD)],
    "github": ["gh", "p_", _with_checksum("github", 36)],
    "github-app": ["gh", "s_", _with_checksum("github app", 36)],
    "github-fine-grained": ["github", "_pat_", _fake("github fine", 22), "_", _draw("github fine 2", 59)],
    "gitlab": ["gl", "pat-", _fake("gitlab", 20, WORD)],
    "google": ["AI", "za", _fake("google", 35, WORD)],
    "google-client": ["GOC", "SPX-", _fake("google client", 28, WORD)],
    "grafana": ["gl", "sa_", _fake("grafana", 32), "_", _draw("grafana 2", 8, HEX)],
    "groq": ["gs", "k_", _fake("groq", 52)],
    "hugging-face": ["h", "f_", _fake("hugging face", 34)],
    "jwt": ["ey", "J", _fake("jwt", 33), ".", "ey", "J", _draw("jwt 2", 61), ".", _draw("jwt 3", 43, WORD)],
    "linear": ["lin", "_api_", _fake("linear", 40)],
    "mailchimp": [_fake("mailchimp", 32, HEX), "-u", "s9"],
    "mailgun": ["ke", "y-", _fake("mailgun", 32, HEX)],
    "new-relic": ["NR", "AK-", _fake("new relic", 27, UPPER)],
    "notion": ["nt", "n_", _fake("notion", 46)],
    "npm": ["np", "m_", _with_checksum("npm", 36)],
    "nvidia": ["nv", "api-", _fake("nvidia", 64, WORD)],
    "openai": ["sk-", "proj-", _fake("openai", 80, WORD)],
    "perplexity": ["pp", "lx-", _fake("perplexity", 48)],
    "planetscale": ["psc", "ale_tkn_", _fake("planetscale", 43, WORD)],
    "postman": ["PM", "AK-", _fake("postman", 24, HEX), "-", _draw("postman 2", 34, HEX)],
    "pulumi": ["p", "ul-", _fake("pulumi", 40, HEX)],
    "pypi": ["py", "pi-", "AgEIcHlwaS5vcmc", _fake("pypi", 130, WORD)],
    "replicate": ["r", "8_", _fake("replicate", 37)],
    "rubygems": ["ruby", "gems_", _fake("rubygems", 48, HEX)],
    "sendgrid": ["S", "G.", _fake("sendgrid", 22, WORD), ".", _draw("sendgrid 2", 43, WORD)],
    "sentry": ["snt", "rys_", _fake("sentry", 120, ALNUM + "+/")],
    "shopify": ["shp", "at_", _fake("shopify", 32, HEX)],
    "slack-app": [
        "xa",
        "pp-",
        "1-A",
        _fake("slack app", 10, UPPER),
        "-",
        _draw("slack app 2", 13, DIGITS),
        "-",
        _draw("slack app 3", 64, HEX),
    ],
    "slack-bot": [
        "xo",
        "xb-",
        _draw("slack", 12, DIGITS),
        "-",
        _draw("slack 2", 13, DIGITS),
        "-",
        _fake("slack 3", 24),
    ],
    "square": ["sq0", "csp-", _fake("square", 43, WORD)],
    "stripe": ["sk", "_live_", _fake("stripe", 24)],
    "supabase": ["sb", "p_", _fake("supabase", 40, HEX)],
    "tailscale": ["ts", "key-", "auth-", _fake("tailscale", 12), "-", _draw("tailscale 2", 32)],
    "telegram": [_draw("telegram", 10, "123456789"), ":", "AA", _fake("telegram 2", 33, WORD)],
    "vault": ["hv", "s.", _fake("vault", 90, WORD)],
    "xai": ["xa", "i-", _fake("xai", 80)],
}

TOKEN_PLACES: dict[str, tuple[str, list[str]]] = {
    "env": ("# lighthouse service\nLAMP_MODE=auto\nLIGHT_CREDENTIAL=⟦A⟧\nPORT=8088\n", ["LAMP_MODE=auto", "PORT=8088"]),
    "json": ('{"tide": 3, "note": "⟦A⟧", "open": true, "crew": ["Ida", "Bo"]}', ['"tide": 3', '"crew": ["Ida", "Bo"]']),
    "json-in-json": ('{"exit": 0, "out": "{\\"a\\": 1, \\"b\\": \\"⟦A⟧\\"}"}', ['"exit": 0']),
    "yaml": ("boat: Selma\nextra:\n  - value: ⟦A⟧\n  - depth: 12\n", ["boat: Selma", "depth: 12"]),
    "header": ("GET /tides HTTP/1.1\nX-Lamp: ⟦A⟧\nAccept: text/plain\n", ["GET /tides HTTP/1.1", "Accept: text/plain"]),
    "url": (
        "opening https://tides.example.net/v3/now?unit=m&x=⟦A⟧&lang=da ...",
        ["https://tides.example.net/v3/now?unit=m", "lang=da"],
    ),
    "command": ("$ tidectl sync --site skagen --with ⟦A⟧ --verbose", ["$ tidectl sync --site skagen", "--verbose"]),
    "log": ("11:42:07 WARN  tide.sync retry=2 sent=⟦A⟧ took=31ms", ["11:42:07 WARN  tide.sync retry=2", "took=31ms"]),
    "prose": ("Someone pasted ⟦A⟧, so please revoke it today.", ["Someone pasted ", "so please revoke it today."]),
    "code": ("client = Tides(\n    '⟦A⟧',\n    timeout=30,\n)\n", ["client = Tides(", "timeout=30"]),
    "diff": ('@@ -3,1 +3,1 @@\n-    old = None\n+    old = "⟦A⟧"\n', ["@@ -3,1 +3,1 @@", "-    old = None"]),
}


def _tokens() -> Iterator[Row]:
    places = list(TOKEN_PLACES)
    for number, (vendor, parts) in enumerate(TOKENS.items()):
        for turn in range(3):
            place = places[(number + 4 * turn) % len(places)]
            text, stays = TOKEN_PLACES[place]
            yield {"id": f"token/{vendor}/{place}", "text": text, "secrets": {"A": parts}, "stays": stays}


# ---- values that only their field gives away -------------------------------------------------------------------------

FIELD_PLACES: dict[str, tuple[str, list[str]]] = {
    "env": ("DB_HOST=tide.internal\nDB_PASSWORD=⟦A⟧\nDB_PORT=5432\n", ["DB_HOST=tide.internal", "DB_PORT=5432"]),
    "export": ("export TIDE_API_KEY='⟦A⟧'\nexport TIDE_UNIT=m\n", ["export TIDE_UNIT=m"]),
    "json": ('{"user": "ida", "password": "⟦A⟧", "retries": 4}', ['"user": "ida"', '"retries": 4']),
    "json-nested": (
        '{"db": {"host": "tide", "auth": {"client_secret": "⟦A⟧"}}, "ok": true}',
        ['"host": "tide"', '"ok": true'],
    ),
    "json-escaped": ('{"log": "login with {\\"password\\": \\"⟦A⟧\\"} done"}', ["login with", "done"]),
    "yaml": ("database:\n  user: ida\n  password: ⟦A⟧\n  pool: 9\n", ["user: ida", "pool: 9"]),
    "yaml-quoted": ('smtp:\n  api_key: "⟦A⟧"\n  port: 587\n', ["port: 587"]),
    "ini": ("[tide]\nuser = ida\npassword = ⟦A⟧\ntimeout = 5\n", ["user = ida", "timeout = 5"]),
    "toml": ('[tide]\napi_key = "⟦A⟧"\nunit = "m"\n', ['unit = "m"']),
    "properties": ("tide.datasource.password=⟦A⟧\ntide.pool=3\n", ["tide.pool=3"]),
    "xml": ("<tide><user>ida</user><password>⟦A⟧</password></tide>", ["<user>ida</user>", "</tide>"]),
    "bearer": ("> Authorization: Bearer ⟦A⟧\n> Accept: text/plain\n", ["Accept: text/plain"]),
    "api-key-header": ("x-api-key: ⟦A⟧\naccept: text/plain\n", ["accept: text/plain"]),
    "cookie": ("Cookie: lang=da; session_token=⟦A⟧; theme=dark\n", ["lang=da", "theme=dark"]),
    "url-user": ("clone https://ida:⟦A⟧@git.example.net/tide.git now", ["git.example.net/tide.git"]),
    "database-url": ("DATABASE_URL=postgres://tide:⟦A⟧@db.internal:5432/log", ["db.internal:5432/log"]),
    "url-query": ("GET https://tide.example.net/now?access_token=⟦A⟧&unit=m", ["unit=m"]),
    "flag": ("tidectl login --user ida --password ⟦A⟧ --quiet", ["--user ida", "--quiet"]),
    "flag-equals": ("tidectl push --token=⟦A⟧ ./log.csv", ["./log.csv"]),
    "curl-user": ("curl -u ida:⟦A⟧ https://tide.example.net/now", ["https://tide.example.net/now"]),
    "netrc": ("machine tide.example.net login ida password ⟦A⟧\n", ["machine tide.example.net"]),
    "connection-string": ("Server=tide;User Id=ida;Password=⟦A⟧;Encrypt=true", ["Server=tide", "Encrypt=true"]),
    "python": ("settings.SECRET_KEY = '⟦A⟧'\nsettings.DEBUG = False\n", ["settings.DEBUG = False"]),
    "javascript": ('const config = { apiKey: "⟦A⟧", region: "dk" };', ['region: "dk"']),
    "sql": ("ALTER ROLE ida WITH PASSWORD '⟦A⟧';", ["ALTER ROLE ida"]),
    "kubernetes": ("env:\n- name: TIDE_TOKEN\n  value: ⟦A⟧\n- name: UNIT\n  value: m\n", ["- name: UNIT\n  value: m"]),
    "docker": ("docker run -e TIDE_SECRET=⟦A⟧ -p 80:80 tide:4", ["-p 80:80 tide:4"]),
    "npmrc": (
        "//npm.example.net/:_authToken=⟦A⟧\nregistry=https://npm.example.net/\n",
        ["registry=https://npm.example.net/"],
    ),
    "aws-file": ("[tide]\naws_secret_access_key = ⟦A⟧\nregion = eu-north-1\n", ["region = eu-north-1"]),
    "log": ("11:42:07 DEBUG login user=ida password=⟦A⟧ took=31ms", ["user=ida", "took=31ms"]),
}


def _fields() -> Iterator[Row]:
    for place, (text, stays) in FIELD_PLACES.items():
        for number, size in enumerate((20, 40)):
            parts = [_fake(f"field {place} {number}", size)]
            yield {"id": f"field/{place}/{size}", "text": text, "secrets": {"A": parts}, "stays": stays}


# ---- private keys ----------------------------------------------------------------------------------------------------

KEY_KINDS = ("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY")


def _key_blocks() -> Iterator[Row]:
    for kind in KEY_KINDS:
        name = kind.lower().replace(" ", "-")
        body = base64.b64encode(_fake(kind, 240).encode()).decode()
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        block = "\n".join([f"-----BEGIN {kind}-----", "⟦A⟧", f"-----END {kind}-----"])
        secrets = {"A": ["\n".join(lines)]}
        around = {"text": f"cat key.pem\n{block}\nexit 0\n", "stays": ["cat key.pem", "exit 0"]}
        yield {"id": f"key/{name}/file", **around, "secrets": secrets}
        cut = f"cat key.pem\n-----BEGIN {kind}-----\n⟦A⟧\n"
        yield {"id": f"key/{name}/cut-off", "text": cut, "stays": ["cat key.pem"], "secrets": secrets}
        escaped = {"A": ["\\n".join(lines)]}
        inside = json.dumps({"id": 7, "pem": block + "\n", "ok": True}, ensure_ascii=False)
        yield {"id": f"key/{name}/json", "text": inside, "stays": ['"id": 7', '"ok": true'], "secrets": escaped}
        indented = {"A": ["\n    ".join(lines)]}
        nested = block.replace("\n", "\n    ")
        yaml = f"tls:\n  key: |\n    {nested}\n  port: 443\n"
        yield {"id": f"key/{name}/yaml", "text": yaml, "stays": ["port: 443"], "secrets": indented}


# ---- secrets that are known beforehand -------------------------------------------------------------------------------

REGISTERED = {
    "phrase": "harbour-lamp-" + _draw("phrase", 14),
    "signs": 'kelp"9 &<é/%' + _draw("signs", 10),
    "plain": _draw("plain", 24),
}
FORMS = ("plain", "base64", "base64url", "hex", "hex-upper", "percent", "form", "json", "html", "reversed")


def _registered() -> Iterator[Row]:
    for name, value in REGISTERED.items():
        for form in FORMS:
            text = f"step 4 printed ⟦A:{form}⟧ and went on to step 5"
            row = {"id": f"registered/{name}/{form}", "text": text, "secrets": {"A": [value[:5], value[5:]]}}
            yield {**row, "registered": ["A"], "stays": ["step 4 printed ", " and went on to step 5"]}
        beside = "first ⟦A⟧⟦A⟧ second ⟦A⟧\nthird"
        row = {"id": f"registered/{name}/repeated", "text": beside, "secrets": {"A": [value[:5], value[5:]]}}
        yield {**row, "registered": ["A"], "stays": ["first ", " second ", "third"]}


# ---- what is no secret -----------------------------------------------------------------------------------------------


def _harmless() -> Iterator[Row]:
    texts = {
        "uuid": f"berth {_uuid('uuid')} is free",
        "uuid-list": f"ids: [{_uuid('one')}, {_uuid('two')}]",
        "sha1": f"commit {_draw('sha1', 40, HEX)}\nAuthor: Ida\n",
        "sha256": f"{_draw('sha256', 64, HEX)}  tide-4.2.tar.gz",
        "sha512-integrity": f'"integrity": "sha512-{base64.b64encode(_draw("sha512", 64).encode()).decode()}"',
        "md5": f"md5sum {_draw('md5', 32, HEX)} log.csv",
        "image-digest": f"tide@sha256:{_draw('image', 64, HEX)}",
        "git-diff-index": f"index {_draw('index', 7, HEX)}..{_draw('index 2', 7, HEX)} 100644",
        "etag": f'ETag: "{_draw("etag", 32, HEX)}"',
        "request-id": f"x-request-id: {_uuid('request')}",
        "trace": f"traceparent: 00-{_draw('trace', 32, HEX)}-{_draw('span', 16, HEX)}-01",
        "mac-address": "eth0 link/ether 02:fa:4e:11:9c:d0",
        "public-key-block": "-----BEGIN PUBLIC KEY-----\n" + _draw("public", 64) + "\n-----END PUBLIC KEY-----\n",
        "certificate": "-----BEGIN CERTIFICATE-----\n" + _draw("certificate", 64) + "\n-----END CERTIFICATE-----\n",
        "ssh-public-key": f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_draw('ssh', 43)} ida@tide",
    }
    for name, text in texts.items():
        yield {"id": f"harmless/{name}", "text": text, "secrets": {}}


def make_rows() -> list[Row]:
    rows = [*_tokens(), *_fields(), *_key_blocks(), *_registered(), *_harmless()]
    return sorted(rows, key=lambda row: row["id"])

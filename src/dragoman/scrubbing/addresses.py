"""Secrets in addresses: the password before the host, and links that let in whoever knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman.scrubbing.judging import is_standalone_secret
from dragoman.scrubbing.likeness import is_placeholder, is_random
from dragoman.scrubbing.view import CONTEXT, TOKEN, Span, View
from dragoman.scrubbing.wording import word_set

_USERINFO = re.compile(r"([^\s/?#\"'`<>@:\\,\[]{0,256}):([^\s\"'`<>/\\]{1,1024})@(?=[\w\[.$%{-])")
_USER_ONLY = re.compile(r"([^\s/?#\"'`<>@:\\,\[]{16,512})@(?=[\w\[.-])")
_DEFAULTS: Final = word_set(
    """
    password pass passwd pwd secret pw user username guest postgres root admin mysql test token mypassword changeme
    redacted hidden xxx hunter example x-oauth-basic x-access-token oauth2 git
    """
)
_PORT = re.compile(r"\d{1,5}[/?#,]")
# Where the secret of a link begins, and what it looks like.
_LINKS: Final = (
    ("webhook", re.compile(r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([\w/+-]{20,256})")),
    ("webhook", re.compile(r"(?:[\w-]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d{5,24}/[\w-]{30,128})")),
    (
        "webhook",
        re.compile(
            r"[\w-]+\.webhook\.office\.com/(webhookb2/[\w@-]{30,128}/IncomingWebhook/[\w-]{20,64}/[\w-]{20,64}(?:/[\w-]+)?)"
        ),
    ),
    (
        "webhook",
        re.compile(r"chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?(key=[\w-]{20,64}&token=[\w%-]{20,128})"),
    ),
    ("webhook", re.compile(r"hooks\.zapier\.com/hooks/catch/(\d+/[\w-]{5,64})")),
    ("webhook", re.compile(r"(?:maker\.ifttt\.com/trigger/[\w-]+/(?:json/)?with/key)/([\w-]{15,128})")),
    ("webhook", re.compile(r"open\.(?:feishu|larksuite)\.cn/open-apis/bot/v2/hook/([\w-]{20,64})")),
    ("telegram_token", re.compile(r"api\.telegram\.org/(?:file/)?bot(\d{5,16}:[\w-]{10,64})")),
    ("webhook", re.compile(r"[\w.-]+\.logic\.azure\.com[^\s\"'\\]{0,200}?sig=([\w%-]{20,128})")),
    (
        "api_key",
        re.compile(r"[\w-]+\.(?:infura\.io|alchemy\.com|g\.alchemy\.com|quiknode\.pro)/(?:v\d/)?([\w-]{28,64})"),
    ),
    ("sentry_dsn", re.compile(r"([0-9a-f]{32})@[\w.-]*(?:sentry|ingest)")),
)


def address_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The secrets of the address whose `://` is at `position`."""
    text, start = view.text, position + 3
    found = _USERINFO.match(text, start, stop)
    if found and _is_password(found[1], found[2]):
        yield Span(found.start(2), found.end(2), "password", CONTEXT)
    elif found is None:
        user = _USER_ONLY.match(text, start, stop)
        if user and is_standalone_secret(user[1]):
            yield Span(user.start(1), user.end(1), "token", CONTEXT)
    for kind, link in _LINKS:
        secret = link.match(text, start, stop)
        if secret and not is_placeholder(secret[1]) and not secret[1].startswith(("T00000000", "000000000")):
            # Who has such a link needs nothing else: all of it goes.
            whole = view.run_start(position) if kind == "webhook" else secret.start(1)
            yield Span(whole, secret.end(1), kind, TOKEN)
            return


def _is_password(user: str, password: str) -> bool:
    if _PORT.match(password) or (password.isdigit() and len(password) < 4):
        return False
    if is_placeholder(password) or password.lower() in _DEFAULTS or password.startswith(("%3C", "%24", "[")):
        return False
    return password != user and (len(password) >= 4 or is_random(password))

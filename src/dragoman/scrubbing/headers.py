"""Secrets in headers: what authorizes a request, and the cookies that keep somebody logged in."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from dragoman.scrubbing.judging import is_credential, is_secret, is_session_value
from dragoman.scrubbing.keys import weigh_key
from dragoman.scrubbing.likeness import is_random
from dragoman.scrubbing.view import CONTEXT, Span, View

_SIGN = re.compile(r"(?:\\{0,7}[\"'`])?(?:[ \t]{0,16}(?:=>|[:=,])[ \t]{0,16}|%3[aA](?:%20|\+)?)(?:\\{0,7}[\"'`])?")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|Digest|ApiKey|Api-Key|Key|SSWS|GenieKey|Bot|OAuth|JWT|Negotiate|NTLM|Kerberos|SharedKey"
    r"|SharedAccessSignature|PRIVATE-TOKEN|Splunk|Klaviyo-API-Key|Zoho-oauthtoken|Snowflake|AWS|GoogleLogin|MAC"
    r"|(?P<other>[A-Z][A-Za-z-]{2,24}))(?:[ \t]+|%20|\+)(?:auth=|token=\\?\"?)?",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(r"(?:[A-Za-z0-9_.~+/=%:!@#$^*&]|-(?!----)){6,16384}")
_HIDDEN = re.compile(r"\[redacted:|.{0,4}\*?\[REDACTED\]")
_SIGNATURES = re.compile(
    r"(?:Signature|response|oauth_signature|oauth_token|cnonce|Credential)=\\?\"?([A-Za-z0-9+/=%_-]{8,512})"
)
_SPOKEN_SCHEME = re.compile(r"(?:[ \t]+|%20|\+)((?:[A-Za-z0-9_.~+/]|-(?!----)){8,16384}={0,2})(?![A-Za-z0-9_])")
_COOKIE = re.compile(r"([^\s=;,\"'\\]{1,128})=([^\s;,\"'\\]{1,8192})")
_AFTER_PAIR = re.compile(r"[ \t]*;[ \t]*")


def authorization_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The credential of an `Authorization` header, of a header like it, or of a field that holds one."""
    text = view.text
    sign = _SIGN.match(text, end, stop)
    if sign is None:
        return
    at = sign.end()
    listed = "," in sign.group()
    line = text.find("\n", at, stop)
    stop = stop if line < 0 else line
    scheme = _SCHEME.match(text, at, stop)
    if scheme and scheme["other"] and is_random(scheme["other"]):
        scheme = None
    if text[at : at + 4].lower() in {"aws4", "dige", "mac "} or text.startswith(
        "oauth_", scheme.end() if scheme else at
    ):
        for found in _SIGNATURES.finditer(text, at, stop):
            yield Span(found.start(1), found.end(1), "credential", CONTEXT)
        return
    if scheme and _HIDDEN.match(text, scheme.end(), stop):
        return
    credential = _CREDENTIAL.match(text, scheme.end() if scheme else at, stop)
    if credential is None and scheme:
        credential = _CREDENTIAL.match(text, at, stop)
    if credential is None or _HIDDEN.match(text, credential.end()) or not is_credential(credential.group()):
        return
    # In a list of names of headers the next one is no credential.
    if not listed or is_random(credential.group()):
        yield Span(credential.start(), credential.end(), "credential", CONTEXT)


def bearer_spans(view: View, end: int, stop: int, *, basic: bool) -> Iterator[Span]:
    """A credential after `Bearer` or `Basic` without its header."""
    found = _SPOKEN_SCHEME.match(view.text, end, stop)
    if found is None:
        return
    value = found[1]
    if _is_basic(value) if basic else is_credential(value) and (is_random(value) or len(value) >= 32):
        yield Span(found.start(1), found.end(1), "credential", CONTEXT)


def _is_basic(value: str) -> bool:
    """Whether a value is `user:password` in base64."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


def cookie_spans(view: View, end: int, stop: int, *, setting: bool) -> Iterator[Span]:
    """The values of the cookies of a header that let their holder in."""
    text = view.text
    sign = _SIGN.match(text, end, stop)
    if sign is None:
        return
    at = sign.end()
    while True:
        pair = _COOKIE.match(text, at, stop)
        if pair is None:
            return
        weight = weigh_key(pair[1])
        if is_secret(weight, pair[2], quoted=False, literal=True) or is_session_value(pair[2]):
            yield Span(pair.start(2), pair.end(2), "session", CONTEXT)
        more = _AFTER_PAIR.match(text, pair.end(), stop)
        if more is None or setting:
            return
        at = more.end()

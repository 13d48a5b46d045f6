"""AWS Signature Version 4: the signature of a request, from the request, the credentials and the time. No I/O."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlsplit

from msgspec import Struct

ALGORITHM = "AWS4-HMAC-SHA256"
_PORTS = {"http": 80, "https": 443}


class Credentials(Struct, frozen=True):
    """What signs. It shows itself to nobody by accident."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "Credentials(***)"


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    *,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """The headers to add. Signed are the host, the content type and everything that begins with `x-amz-`.

    Other headers may be changed on their way and would break the signature. `now` is in UTC.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": stamp}
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    signed = _signed_headers(url, {**headers, **added})
    names = ";".join(signed)
    canonical = "\n".join(
        [
            method,
            _canonical_path(url),
            _canonical_query(url),
            "".join(f"{name}:{value}\n" for name, value in signed.items()),
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = _signing_key(credentials.secret_key, stamp[:8], region, service)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    proof = f"Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**added, "Authorization": f"{ALGORITHM} {proof}"}


@lru_cache(maxsize=8)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _signed_headers(url: str, headers: Mapping[str, str]) -> dict[str, str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.port and parts.port != _PORTS.get(parts.scheme):
        host = f"{host}:{parts.port}"
    found = {"host": host}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered == "content-type" or lowered.startswith("x-amz-"):
            found[lowered] = " ".join(value.split())
    return dict(sorted(found.items()))


def _canonical_path(url: str) -> str:
    # The path is escaped once more, as for every service but S3: what stands there as %3A is signed as %253A.
    path = urlsplit(url).path
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    tail = "/" if path.endswith("/") and segments else ""
    return quote("/" + "/".join(segments) + tail, safe="/~")


def _canonical_query(url: str) -> str:
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    escaped = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in escaped)

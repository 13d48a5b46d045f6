"""AWS credentials and Signature Version 4."""

from __future__ import annotations

import asyncio
import configparser
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.keys import missing_key, url_variables
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import ConfigError
from dragoman.providers import Endpoint

# --------------------------------------------------------------------------------------------------------------------
# AWS Signature Version 4, computed from the request, the credentials and the time. No I/O.

ALGORITHM = "AWS4-HMAC-SHA256"
_PORTS = {"http": 80, "https": 443}


class Credentials(Struct, frozen=True):
    """AWS credentials. Their `repr` does not show the secret."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "Credentials(***)"


def sign(request: HttpRequest, credentials: Credentials, *, region: str, service: str, now: datetime) -> dict[str, str]:
    """Return the headers to add. The signature covers the host, the content type and all headers with `x-amz-`.

    Proxies may change other headers, which would invalidate the signature. `now` is in UTC.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": stamp}
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    signed = _signed_headers(request.url, {**request.headers, **added})
    names = ";".join(signed)
    canonical = "\n".join(
        [
            request.method,
            _canonical_path(request.url),
            _canonical_query(request.url),
            "".join(f"{name}:{value}\n" for name, value in signed.items()),
            names,
            hashlib.sha256(request.body).hexdigest(),
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
    # The path is escaped twice, as for every service except S3: %3A in the path is signed as %253A.
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


# --------------------------------------------------------------------------------------------------------------------
# AWS credentials: from the environment, from the shared file, or from botocore (roles, SSO).

_region = re.compile(r"//bedrock(?:-runtime)?(?:-fips)?\.([a-z0-9-]+)\.").search
_ALSO = (
    "or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with keys in the shared credentials file; "
    "for roles and SSO: pip install botocore"
)
# botocore renews the credentials of a role; this is how often dragoman asks it.
_FRESH_SECONDS = 60.0

Source = Callable[[], Credentials]


class AwsAuth:
    """Signs every request with SigV4."""

    def __init__(
        self,
        endpoint: Endpoint,
        environment: Mapping[str, str],
        *,
        service: str = "bedrock",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._headers = endpoint.headers_for(None)
        self._region = url_variables(endpoint, environment).get("region", "")
        self._service = service
        self._now, self._clock = now, clock
        self._credentials = find_credentials(environment)
        self._renew: Source | None = None
        self._renewed = 0.0
        self.source = "AWS credentials"
        if self._credentials is None:
            self._renew = open_botocore(endpoint, environment)

    @property
    def secrets(self) -> tuple[str, ...]:
        known = self._credentials
        return () if known is None else tuple(filter(None, (known.secret_key, known.token, known.access_key)))

    async def sign(self, request: HttpRequest) -> HttpRequest:
        credentials = await self._current()
        found = _region(request.url)
        region = found[1] if found else self._region
        if not region:
            raise ConfigError("the AWS region for the signature is unknown", hint="set AWS_REGION")
        headers = {**self._headers, **request.headers}
        request = replace(request, headers=headers)
        added = sign(request, credentials, region=region, service=self._service, now=self._now())
        return replace(request, headers={**headers, **added})

    async def _current(self) -> Credentials:
        if self._renew is not None and (self._credentials is None or self._clock() - self._renewed > _FRESH_SECONDS):
            self._credentials = await asyncio.to_thread(self._renew)
            self._renewed = self._clock()
        assert self._credentials is not None
        return self._credentials


def find_credentials(environment: Mapping[str, str]) -> Credentials | None:
    """Return fixed keys from the environment, else from a profile in the shared file. A named profile has priority."""
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    own = _read(environment, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    if own is not None and not named:
        return own
    return _read_file(environment, named or "default") or own


def _read_file(environment: Mapping[str, str], profile: str) -> Credentials | None:
    told = environment.get("AWS_SHARED_CREDENTIALS_FILE")
    home = environment.get("HOME") or environment.get("USERPROFILE")
    if not told and not home:
        return None
    path = Path(told).expanduser() if told else Path(str(home)) / ".aws" / "credentials"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError, configparser.Error) as error:
        raise ConfigError(f"cannot read {path}: {type(error).__name__}", hint="fix the file") from None
    if not parser.has_section(profile):
        return None
    return _read(parser[profile], "aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def _read(source: Mapping[str, str], access: str, secret: str, token: str) -> Credentials | None:
    first, second = source.get(access, "").strip(), source.get(secret, "").strip()
    return Credentials(first, second, source.get(token, "").strip()) if first and second else None


def open_botocore(endpoint: Endpoint, environment: Mapping[str, str]) -> Source:
    """Return the credentials of botocore: roles, SSO, processes. Raises MissingKey if it is not installed."""
    try:
        botocore = import_module("botocore.session")
    except ImportError:
        raise missing_key(endpoint, _ALSO) from None
    profile = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    kept: list[Any] = []

    def fetch() -> Credentials:
        try:
            if not kept:
                kept.append(botocore.Session(profile=profile).get_credentials())
            frozen = kept[0].get_frozen_credentials() if kept[0] is not None else None
        except Exception as error:
            kept.clear()
            raise TransportFault(
                "unauthorized", f"no AWS credentials: {type(error).__name__}", code="credentials"
            ) from None
        if frozen is None:
            kept.clear()
            raise missing_key(endpoint, _ALSO)
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    return fetch

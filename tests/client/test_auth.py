"""Authentication: keys, AWS signatures (compared with botocore), tokens of Google and Microsoft."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import providers
from dragoman.client.auth import Token, TokenAuth, choose_auth
from dragoman.client.aws import AwsAuth, Credentials, find_credentials, sign
from dragoman.client.keys import Secret
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import MissingKey
from dragoman.providers import Endpoint

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ID, SECRET = "AKIDEXAMPLE0001", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PATHS = st.text("abcXYZ019-._~/:%@ +é", min_size=0, max_size=30)


def judge(url: str, headers: dict[str, str], body: bytes, token: str) -> str:
    """The signature that botocore makes of the same request at the same time."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials as Theirs

    request = AWSRequest("POST", url, headers=dict(headers), data=body)
    request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    if token:
        request.headers["X-Amz-Security-Token"] = token
    signer = SigV4Auth(Theirs(ID, SECRET, token or None), "bedrock", "eu-west-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    names = signer.signed_headers(signer.headers_to_sign(request))
    scope = signer.scope(request)
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signer.signature(text, request)}"


@given(PATHS, st.binary(max_size=60), st.sampled_from(["", "session-token"]), st.sampled_from(["", ":8443"]))
def test_signatures_are_those_of_botocore(path: str, body: bytes, token: str, port: str) -> None:
    from urllib.parse import quote

    url = f"https://bedrock-runtime.eu-west-1.amazonaws.com{port}/model/{quote(path, safe='')}/converse"
    headers = {"Content-Type": "application/json"}
    credentials = Credentials(ID, SECRET, token)
    added = sign(HttpRequest("POST", url, headers, body), credentials, region="eu-west-1", service="bedrock", now=NOW)
    assert added["Authorization"] == judge(url, headers, body, token)
    assert added.get("X-Amz-Security-Token", "") == token


def test_credentials_do_not_show_themselves() -> None:
    assert SECRET not in repr(Credentials(ID, SECRET, "token"))


def bedrock() -> Endpoint:
    return providers.resolve("bedrock:anthropic.claude-v1:0", variables={"region": "eu-west-1"})


def send(auth: Any, url: str = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/x/converse") -> dict[str, str]:
    request = HttpRequest("POST", url, {"Content-Type": "application/json"}, b"{}")
    return dict(asyncio.run(auth.sign(request)).headers)


def test_access_keys_of_the_environment_sign() -> None:
    auth = choose_auth(bedrock(), None, {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET})
    headers = send(auth)
    assert f"Credential={ID}/" in headers["Authorization"]
    assert "/eu-west-1/bedrock/aws4_request" in headers["Authorization"]
    assert SECRET in auth.secrets


def test_a_bearer_key_of_bedrock_needs_no_signature() -> None:
    headers = send(choose_auth(bedrock(), Secret("bearer-key", "AWS_BEARER_TOKEN_BEDROCK"), {}))
    assert headers["Authorization"] == "Bearer bearer-key"


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ("ID-default", "S-default", "")),
        ({"AWS_PROFILE": "work"}, ("ID-work", "S-work", "T-work")),
        ({"AWS_PROFILE": "nobody"}, None),
        ({"AWS_ACCESS_KEY_ID": "ID-env", "AWS_SECRET_ACCESS_KEY": "S-env"}, ("ID-env", "S-env", "")),
        (
            {"AWS_ACCESS_KEY_ID": "ID-env", "AWS_SECRET_ACCESS_KEY": "S-env", "AWS_PROFILE": "work"},
            ("ID-work", "S-work", "T-work"),
        ),
        ({"AWS_ACCESS_KEY_ID": "half"}, ("ID-default", "S-default", "")),
    ],
    ids=["default", "profile", "unknown_profile", "environment", "profile_first", "half"],
)
def test_where_access_keys_are_found(
    tmp_path: Path, environment: dict[str, str], found: tuple[str, str, str] | None
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = ID-default\naws_secret_access_key = S-default\n"
        "[work]\naws_access_key_id=ID-work\naws_secret_access_key=S-work\naws_session_token=T-work\n",
        encoding="utf-8",
    )
    credentials = find_credentials({"HOME": str(tmp_path), **environment})
    assert (credentials and (credentials.access_key, credentials.secret_key, credentials.token)) == found


def test_without_keys_botocore_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str | None] = []

    class Session:
        def __init__(self, profile: str | None) -> None:
            fetched.append(profile)

        def get_credentials(self) -> Any:
            frozen = SimpleNamespace(access_key="ROLE-ID", secret_key="ROLE-SECRET", token="ROLE-TOKEN")
            return SimpleNamespace(get_frozen_credentials=lambda: frozen)

    fake = ModuleType("botocore.session")
    fake.Session = Session  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore.session", fake)
    auth = AwsAuth(bedrock(), {"AWS_PROFILE": "role"})
    assert "Credential=ROLE-ID/" in send(auth)["Authorization"]
    assert send(auth)["X-Amz-Security-Token"] == "ROLE-TOKEN"
    assert fetched == ["role"]


def test_without_keys_and_botocore_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(MissingKey, match="AWS_BEARER_TOKEN_BEDROCK") as caught:
        choose_auth(bedrock(), None, {})
    assert "pip install botocore" in caught.value.explain()


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    clock = [1000.0]
    fetched: list[float] = []

    def fetch() -> Token:
        fetched.append(clock[0])
        return Token(f"token-{len(fetched)}", clock[0] + 3600)

    auth = TokenAuth(fetch, "nobody", {"X-Own": "1"}, lambda: clock[0])
    assert auth.secrets == ()
    assert send(auth)["Authorization"] == "Bearer token-1"
    clock[0] += 3000
    assert send(auth)["Authorization"] == "Bearer token-1"
    clock[0] += 500
    headers = send(auth)
    assert headers["Authorization"] == "Bearer token-2"
    assert headers["X-Own"] == "1"
    assert auth.secrets == ("token-2",)
    assert "token-2" not in repr(Token("token-2", 0.0))


def test_many_requests_fetch_one_token() -> None:
    fetched: list[int] = []

    def fetch() -> Token:
        fetched.append(1)
        return Token("token", 1e12)

    async def scenario() -> None:
        auth = TokenAuth(fetch, "nobody", {})
        await asyncio.gather(*(auth.sign(HttpRequest("POST", "https://h/", {})) for _ in range(20)))

    asyncio.run(scenario())
    assert len(fetched) == 1


def vertex() -> Endpoint:
    return providers.resolve("vertex:gemini-3", variables={"project": "p", "location": "l"})


def test_vertex_takes_the_default_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth

    class Credentials:
        token = "adc-token"
        expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
        quota_project_id = "billed"

        def refresh(self, request: object) -> None:
            scopes.append("refreshed")

    scopes: list[str] = []
    monkeypatch.setattr(google.auth, "default", lambda scopes: (Credentials(), "p"))
    auth = choose_auth(vertex(), None, {})
    headers = send(auth)
    send(auth)
    assert headers["Authorization"] == "Bearer adc-token"
    assert headers["x-goog-user-project"] == "billed"
    assert scopes == ["refreshed"]


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        ("DefaultCredentialsError", MissingKey, "no Google Cloud credentials"),
        ("RefreshError", TransportFault, "no token of Google Cloud"),
        ("TransportError", TransportFault, "no token of Google Cloud"),
    ],
)
def test_credentials_of_google_that_fail(
    monkeypatch: pytest.MonkeyPatch, error: str, expected: type[Exception], words: str
) -> None:
    import google.auth
    from google.auth import exceptions

    def fail(scopes: object) -> None:
        raise getattr(exceptions, error)("secret details")

    monkeypatch.setattr(google.auth, "default", fail)
    with pytest.raises(expected, match=words) as caught:
        send(choose_auth(vertex(), None, {}))
    assert "secret details" not in str(caught.value)


def test_without_google_auth_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(MissingKey, match="google-auth") as caught:
        choose_auth(vertex(), None, {})
    assert "pip install google-auth" in caught.value.next_step


def azure() -> Endpoint:
    return providers.resolve("azure:mine", variables={"resource": "r"})


def test_azure_takes_a_key_in_its_own_header() -> None:
    headers = send(choose_auth(azure(), Secret("azure-key", "AZURE_OPENAI_API_KEY"), {}))
    assert headers["api-key"] == "azure-key"
    assert "Authorization" not in headers


def test_azure_without_a_key_takes_a_token_of_entra(monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied(Exception):
        pass

    class Credential:
        def get_token(self, scope: str) -> Any:
            assert scope == "https://cognitiveservices.azure.com/.default"
            if denied:
                raise Denied("secret details")
            return SimpleNamespace(token="entra-token", expires_on=2_000_000_000)

    denied: list[bool] = []
    identity, errors = ModuleType("azure.identity"), ModuleType("azure.core.exceptions")
    identity.DefaultAzureCredential = Credential  # type: ignore[attr-defined]
    errors.ClientAuthenticationError = Denied  # type: ignore[attr-defined]
    for name, module in {
        "azure": ModuleType("azure"),
        "azure.identity": identity,
        "azure.core.exceptions": errors,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    headers = send(choose_auth(azure(), None, {}))
    assert headers["Authorization"] == "Bearer entra-token"
    assert "api-key" not in headers
    denied.append(True)
    with pytest.raises(TransportFault, match="no token of Entra: Denied"):
        send(choose_auth(azure(), None, {}))


def test_azure_without_key_and_library_says_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(MissingKey, match="AZURE_OPENAI_API_KEY or AZURE_API_KEY") as caught:
        choose_auth(azure(), None, {})
    assert "pip install azure-identity" in caught.value.explain()

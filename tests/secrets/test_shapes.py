"""Files, commands and messages as they occur: what is hidden in them, and what stays."""

from __future__ import annotations

import base64
import re
import string

from tests.secrets.fakes import ALNUM, BASE32, HEX, UPPER, WORD, draw, longest_left
from tests.tables import each_row

from dragoman.secrets import scrub
from dragoman.secrets.exchanges import RecordingRedactor
from dragoman.secrets.vendors import VENDORS

PASSWORD = draw(14)
KEY = draw(40)
BASE64 = base64.b64encode(draw(48).encode()).decode()
ENCODED_KEY = base64.b64encode(("-----BEGIN RSA PRIVATE " + "KEY-----\n" + draw(300)).encode()).decode()

SECRETS = [
    ("otpauth://totp/ACME:bob@x.example?secret=@@&issuer=ACME", draw(32, BASE32)),
    ("TOTP secret: @@", draw(16, BASE32)),
    ("kind: Config\nusers:\n- name: admin\n  user:\n    client-key-data: @@\n", ENCODED_KEY),
    ("kind: Config\nusers:\n- name: a\n  user:\n    username: x\n    password: @@\n", PASSWORD),
    ("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;EndpointSuffix=core.windows.net", BASE64),
    ("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@@", BASE64),
    ("Server=tcp:x,1433;Initial Catalog=d;User ID=u;Password=@@;Encrypt=True;", PASSWORD),
    ("host=h port=5432 user=u password=@@ dbname=d", PASSWORD),
    ("root:@@@tcp(127.0.0.1:3306)/db", PASSWORD),
    ("  extraheader = AUTHORIZATION: basic @@", base64.b64encode(f"x-access-token:{KEY}".encode()).decode()),
    ("define('DB_PASSWORD', '@@');", PASSWORD),
    ("      - POSTGRES_PASSWORD=@@", PASSWORD),
    ('Environment="DB_PASS=@@"', PASSWORD),
    ("<key>API_KEY</key>\n<string>@@</string>", KEY),
    ("java -Djavax.net.ssl.keyStorePassword=@@ -jar x", PASSWORD),
    ('ConvertTo-SecureString "@@" -AsPlainText -Force', PASSWORD),
    ("bindpw @@\n", PASSWORD),
    ("requirepass @@\n", draw(20)),
    ('x.PlainLoginModule required username="u" password="@@";', PASSWORD),
    ("psk=@@", draw(63, HEX)),
    ("aws_session_token=@@", draw(300, ALNUM + "+/")),
    ("https://acct.blob.core.windows.net/c/b?sv=2022&sr=b&sig=@@", draw(43) + "%3D"),
    ("https://storage.example/b/o?X-Goog-Signature=@@", draw(256, HEX)),
    ("?code=@@&state=xyz", "4/0" + draw(60, WORD)),
    ("Location: https://app.example/cb#access_token=@@&token_type=Bearer", draw(60)),
    ("Set-Cookie: connect.sid=s%3A@@; Path=/", draw(32) + "." + draw(43)),
    ("Cookie: PHPSESSID=@@", draw(26, string.ascii_lowercase + string.digits)),
    ('authorization: Digest username="bob", realm="x", nonce="y", uri="/", response="@@"', draw(32, HEX)),
    ("Authorization: AWS4-HMAC-SHA256 Credential=x/us/s3, SignedHeaders=host, Signature=@@", draw(64, HEX)),
    ("INFO: connecting with token @@ to host", KEY),
    ("Your API key is: @@", KEY),
    ("The password for bob is @@", draw(16)),
    ("aws configure set aws_secret_access_key @@", KEY),
    ("kubectl create secret generic x --from-literal=password=@@", PASSWORD),
    ("openssl enc -aes-256-cbc -k @@ -in x", draw(16)),
    ('{"ParameterKey":"MasterUserPassword","ParameterValue":"@@"}', PASSWORD),
    ('{"SecretString": "{\\"username\\":\\"a\\",\\"password\\":\\"@@\\"}"}', PASSWORD),
    ('variable "db_password" {\n  default = "@@"\n}', PASSWORD),
    ('  + master_password = "@@"', PASSWORD),
    ('<property name="hibernate.connection.password">@@</property>', PASSWORD),
    ('<setting name="ApiToken" serializeAs="String"><value>@@</value></setting>', KEY),
    ("SLACK_SIGNING_SECRET=@@", draw(32, HEX)),
    ("access_key = @@", draw(20, UPPER)),
]

HARMLESS = [
    f'"integrity": "sha512-{draw(86, ALNUM + "+/")}=="',
    f'checksum = "{draw(64, HEX)}"',
    f"github.com/x/y v1.2.3 h1:{draw(43, ALNUM + '+/')}=",
    f"    --hash=sha256:{draw(64, HEX)}",
    f"256 SHA256:{draw(43, ALNUM + '+/')} me@h (ED25519)",
    f'"kid": "{draw(40, HEX)}"',
    f"client_id={draw(32, HEX)}",
    f"x-request-id: {draw(32, HEX)}",
    f"image: registry.example/app:{draw(40, HEX)}",
    f"GPG_KEY={draw(40, '0123456789ABCDEF')}",
    f"password_hash: $2b$12${draw(53)}",
    f"cache_key: {draw(64, HEX)}",
    f"sig: {draw(88, ALNUM + '+/')}",
    "token_type: bearer\nexpires_in: 3600",
    '"usage": {"prompt_tokens": 1234, "completion_tokens": 567, "total_tokens": 1801}',
    "tokenizer: cl100k_base",
    "auth: oauth2",
    "secret: my-registry-secret",
    "secrets: inherit",
    '"password": "string"',
    "function resetPassword(token) {",
    'if (!password) throw new Error("password required");',
    "password = getpass.getpass()",
    "token, err := lexer.Next()",
    "api_key: ${{ secrets.API_KEY }}",
    "Authorization: Bearer {token}",
    "Authorization: Bearer ...",
    "curl -u user:password https://x.example",
    "curl -u $USER:$PASS https://x.example",
    "--password <password>  Password to use\n--token string   API token",
    'PASSWORD=\nAPI_KEY=""\n# API_KEY=your-key',
    "Cookie: theme=dark; lang=en; _ga=GA1.2.1234567890.1234567890",
    "S3_KEY=uploads/2026/03/report-final.pdf",
    'keyCode: 13, key: "ArrowLeft"',
    "author: Jane Doe <jane@example.com>",
    "authority: https://login.microsoftonline.com/common",
    "passed: 12, failed: 3\nPASS  src/foo.test.ts (5.1s)\nok 12 - password reset works",
    "base64: SGVsbG8gV29ybGQhIFRoaXMgaXMgYSB0ZXN0",
    'eos_token: "<|endoftext|>"',
    "Enter passphrase for key '/srv/x/.ssh/id_ed25519':",
    "Permission denied (publickey,password).",
    'WWW-Authenticate: Bearer realm="https://auth.docker.io/token",service="registry.docker.io"',
    "access-control-allow-headers: Authorization, X-Api-Key, Content-Type",
    "go: downloading github.com/golang-jwt/jwt/v5 v5.2.1",
    "SELECT password, token FROM users WHERE id = 1",
    "password varchar(255) NOT NULL",
    '"required": ["username", "password"]',
    "Password:",
    "PWD=/srv/user/project\nSSH_AUTH_SOCK=/run/user/1000/keyring/ssh",
]


@each_row(("form", "secret"), SECRETS, ids=[form[:60] for form, _ in SECRETS])
def test_it_is_hidden(form: str, secret: str) -> None:
    out = scrub(form.replace("@@", secret, 1))
    assert longest_left(secret, out) <= max(6, len(secret) // 3), out
    assert scrub(out) == out


@each_row("text", HARMLESS, ids=[text[:60] for text in HARMLESS])
def test_it_stays(text: str) -> None:
    assert scrub(text) == text


def test_a_recording_hides_the_tokens_of_the_same_table() -> None:
    # Those that only their randomness tells from words are left: a recording has to stay readable.
    redactor = RecordingRedactor()
    rows = [(prefix, body, demand) for _, prefixes, body, demand in VENDORS for prefix in prefixes.split()]
    for prefix, body, demand in rows:
        found = re.fullmatch(r"<(\w+) (\d+)\+?>", body)
        if found is None:
            continue
        letters = {"hex": HEX, "upper": UPPER, "lower": UPPER.lower(), "uuid": HEX, "digits": "0123456789"}
        token = prefix + draw(int(found[2]), letters.get(found[1], ALNUM))
        left_out = len(prefix) < 3 or (demand == "mixed" and prefix.isalnum())
        assert left_out or token not in redactor.text(f"before {token} after"), token

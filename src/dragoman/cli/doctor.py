"""`dragoman doctor`: what an endpoint can do, what it cannot, and what to do about it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from dragoman.errors import ConfigError

HELP = """Ask an endpoint what works: calls, streams, tool choice, results, reasoning, schemas, text formats, grammars.

TARGET is provider:model, a provider whose first model is taken, or the address of a server, which is recognised by
what it answers. Without one, the model of the settings is examined. The number of requests is said beforehand, and
each is small; temperature is 0.

What is found is kept in `learned.toml` in the folder of the settings, and `dragoman run` and `dragoman chat` go by it.

\b
Examples:
  dragoman doctor ollama:qwen3
  dragoman doctor http://127.0.0.1:8080          llama.cpp, vLLM, SGLang, Ollama, LM Studio or any other
  dragoman doctor http://box:8000 -m Qwen/Qwen3-8B --key-env BOX_KEY
  dragoman doctor groq:llama-3.3-70b-versatile --quick
  dragoman doctor local                          the embedded model
  dragoman doctor openai:gpt-5 --json | jq '.findings[] | select(.verdict == "broken")'
  dragoman doctor ollama:qwen3 --forget          drop what was learned of it
  dragoman doctor --sandbox                      does the sandbox for commands hold on this machine?

\b
Exit codes:
  0    everything works that is there
  1    something is broken, or the sandbox does not hold
  2    misuse: no such provider, no key, no server at that address
  4    the endpoint did not answer
  130  interrupted by Ctrl-C; nothing was kept
"""


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[URL|PROVIDER:MODEL]", help="What is examined.", show_default=False),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model at an address.", show_default=False)
    ] = "",
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="The address of the provider.", show_default=False)
    ] = "",
    wire: Annotated[
        str, typer.Option("--wire", metavar="NAME", help="The wire to speak, of those it has.", show_default=False)
    ] = "",
    key_env: Annotated[
        str, typer.Option("--key-env", metavar="NAME", help="The variable that holds the key.", show_default=False)
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Only the most important probes.")] = False,
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", help="The most tokens of a reply.", min=32)] = 1024,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", help="The longest that one request may take.", min=1)
    ] = 120.0,
    no_save: Annotated[bool, typer.Option("--no-save", help="Keep nothing of what is found.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Drop what was learned, and ask nothing.")] = False,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Examine the sandbox for commands instead: try to break out of it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> int:
    from dragoman.cli.consultation import Consultation, Wish

    if sandbox:
        return _examine_sandbox(as_json=as_json)
    key = os.environ.get(key_env, "").strip() if key_env else ""
    if key_env and not key:
        raise ConfigError(f"{key_env} is not set", hint="--key-env names the variable that holds the key")
    wish = Wish(
        target=target or "",
        model=model,
        base_url=base_url,
        wire=wire,
        key=key,
        quick=quick,
        tokens=tokens,
        seconds=seconds,
        saves=not no_save,
        forgets=forget,
        as_json=as_json,
    )
    consultation = Consultation(wish, os.environ)
    for warning in consultation.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return consultation.hold()


def _examine_sandbox(*, as_json: bool) -> int:
    """Try to break out of the sandbox that commands would run in; nothing is asked of a model."""
    import msgspec

    from dragoman.cli.sandbox_report import sandbox_lines
    from dragoman.cli.screen import write_json
    from dragoman.config import load
    from dragoman.sandbox import find_sandbox, probe, why_not

    wanted = load(environment=os.environ)["sandbox"]
    report = probe(find_sandbox(wanted))
    if as_json:
        write_json({**msgspec.to_builtins(report), "holds": report.holds, "not_used": list(why_not(wanted))})
    else:
        print("\n".join(sandbox_lines(report, why_not(wanted), details=True)))
    return 0 if report.holds else 1

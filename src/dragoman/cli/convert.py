"""`dragoman convert`: convert a request from the wire of one provider to that of another."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from dragoman import providers
from dragoman.cli.screen import Screen, read_json, write_json
from dragoman.providers.definitions import codec_for
from dragoman.wire import names
from dragoman.wire.conversion import convert as convert_body

HELP = f"""Convert a request or a conversation from one provider to another.

FILE is the JSON body of a request, or the list of its messages. Without FILE, or if it is -, the command reads standard
input. It writes the new body to standard output, and the report of changed, moved and lost fields to standard error.

WIRE is {", ".join(names()[:-1])} or {names()[-1]}, or a provider such as
deepseek or groq:llama-3.3-70b, which also applies the quirks of that endpoint.

\b
Examples:
  dragoman convert --from anthropic --to gemini request.json
  dragoman convert --from openai --to deepseek:deepseek-chat request.json > new.json
  dragoman convert --from gemini --to ollama --model qwen3 request.json
  dragoman convert --from openai --to mistral --json request.json | jq .report
  dragoman convert --from openai --to gemini --report request.json    only show the losses
  dragoman convert --from openai --to gemini --check request.json     fail if anything is lost
"""


app = typer.Typer(name="convert", add_completion=False, rich_markup_mode=None)


@app.command("convert", help=HELP)
def convert(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The request; - is standard input.", show_default=False)
    ] = None,
    source: Annotated[
        str,
        typer.Option("--from", "-f", metavar="WIRE", help="The wire or provider of the request.", show_default=False),
    ] = ...,  # type: ignore[assignment]
    target: Annotated[
        str, typer.Option("--to", metavar="WIRE", help="The wire or provider to convert to.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model to write into the new request.")
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Exit with code 1 if anything was changed or lost.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Print only the report, on standard output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: body, path and report.")] = False,
) -> int:
    reader, writer = codec_for(source), codec_for(target)
    if not model:
        model = providers.split(target)[1]
    prepared = convert_body(read_json(file), reader, writer, model=model)
    if as_json:
        write_json(
            {
                "body": prepared.body,
                "path": writer.endpoint(model or str(prepared.body.get("model", "")), stream=False),
                "report": [msgspec.to_builtins(loss) for loss in prepared.losses],
                "names": prepared.aliases.names,
                "ids": {wire: ours for wire, ours in prepared.aliases.ids.items() if wire != ours},
            }
        )
    else:
        if not report:
            write_json(prepared.body)
        screen = Screen(sys.stdout if report else sys.stderr)
        for loss in prepared.losses:
            screen.line((f"{loss.rule:12} ", "yellow"), str(loss))
    return 1 if check and prepared.losses else 0

"""`dragoman convert`: convert a request from the wire of one provider to that of another."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from dragoman.cli.screen import Screen, read_json, write_json
from dragoman.providers.definitions import codec_for
from dragoman.wire import names
from dragoman.wire.conversion import convert as convert_body

HELP = f"""Turn a request, or a conversation, of one provider into what another one takes.

FILE is the JSON body of a request, or the list of its messages; without one, or as -, it is read from standard input.
The new body goes to standard output, the report of what was changed, moved or left out to standard error.

WIRE is {", ".join(names()[:-1])} or {names()[-1]}, or a provider such as
deepseek or groq:llama-3.3-70b, which also brings the quirks of that endpoint.

\b
Examples:
  dragoman convert --from anthropic --to gemini request.json
  dragoman convert --from openai --to deepseek:deepseek-chat request.json > new.json
  dragoman convert --from gemini --to ollama --model qwen3 request.json
  dragoman convert --from openai --to mistral --json request.json | jq .report
  dragoman convert --from openai --to gemini --report request.json    what would it cost?
  dragoman convert --from openai --to gemini --check request.json     fails if anything is lost
"""


app = typer.Typer(name="convert", add_completion=False, rich_markup_mode=None)


@app.command("convert", help=HELP)
def convert(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The request; - is standard input.", show_default=False)
    ] = None,
    source: Annotated[
        str, typer.Option("--from", "-f", metavar="WIRE", help="The wire that it was written for.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    target: Annotated[
        str, typer.Option("--to", "-t", metavar="WIRE", help="The wire that it shall go to.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    model: Annotated[str, typer.Option("--model", "-m", help="Name this model instead of the one that it names.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if anything was changed or lost.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Print the report alone, on standard output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: body, path and report.")] = False,
) -> int:
    reader, writer = codec_for(source), codec_for(target)
    if ":" in target and not model:
        model = target.partition(":")[2]
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

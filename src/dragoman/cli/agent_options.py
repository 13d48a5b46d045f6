"""The options that `dragoman run` and `dragoman chat` share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Mode = Literal["auto", "native", "text"]
TrustLevel = Literal["strict", "default", "compat"]

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="PROVIDER:MODEL", help="The model that is asked.", show_default=False),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        "-t",
        metavar="SOURCE",
        help="Tools: file.py, package.module, package.module:name or entry:NAME. May be repeated.",
        show_default=False,
    ),
]
System = Annotated[
    str | None,
    typer.Option("--system", metavar="TEXT|@FILE", help="The system prompt, or its file.", show_default=False),
]
BaseUrl = Annotated[str, typer.Option("--base-url", metavar="URL", help="The address of the endpoint.")]
ToolMode = Annotated[
    Mode | None, typer.Option("--tool-mode", help="How tools are offered: natively or as text.", show_default=False)
]
Trust = Annotated[
    TrustLevel | None, typer.Option("--trust", help="Which calls in a model's text count.", show_default=False)
]
Turns = Annotated[
    str | None, typer.Option("--turns", metavar="N", help="The most requests to the model.", show_default=False)
]
Tokens = Annotated[
    str | None, typer.Option("--tokens", metavar="N", help="The most tokens, in and out.", show_default=False)
]
Cost = Annotated[
    str | None, typer.Option("--cost", metavar="DOLLARS", help="The most that it may cost.", show_default=False)
]
Seconds = Annotated[
    str | None, typer.Option("--seconds", metavar="N", help="The longest that it may take.", show_default=False)
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option of the request, such as temperature=0.2. May be repeated.",
        show_default=False,
    ),
]
Approve = Annotated[
    list[str] | None,
    typer.Option(
        "--approve",
        metavar="ask|never|NAME",
        help="Calls that need approval: ask at the terminal (the default), never allow them, or allow those of the "
        "tools of this name or pattern. May be repeated.",
        show_default=False,
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="NAME", help="Tools that are not offered. May be repeated.", show_default=False),
]
Thinking = Annotated[bool, typer.Option("--thinking", help="Show what the model thinks, too.")]
Log = Annotated[
    str | None, typer.Option("--log", metavar="FILE", help="Append a line of JSON per event.", show_default=False)
]
NoJournal = Annotated[bool, typer.Option("--no-journal", help="Keep nothing of this.")]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="The folder that tools work in; here.", show_default=False),
]

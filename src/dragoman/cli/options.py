"""The options that `dragoman run` and `dragoman chat` share."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.types import ModeName, SandboxName, ToolModeName, TrustName

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
    ToolModeName | None,
    typer.Option("--tool-mode", help="How tools are offered: natively or as text.", show_default=False),
]
Trust = Annotated[
    TrustName | None, typer.Option("--trust", help="Which calls in a model's text count.", show_default=False)
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
Mode = Annotated[
    ModeName | None,
    typer.Option(
        "--mode",
        help="What runs without a question: plan reads only, edits also writes in the workspace, sandboxed also runs "
        "commands in a sandbox, locked asks nobody and denies instead, bypass allows all but what is denied.",
        show_default=False,
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="RULE",
        help="Calls that need no question, such as 'bash(git status*)' or 'write(src/**)'. May be repeated.",
        show_default=False,
    ),
]
AskFor = Annotated[
    list[str] | None,
    typer.Option("--ask", metavar="RULE", help="Calls that are always asked about.", show_default=False),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        "--deny",
        metavar="RULE",
        help="Calls that never run, such as 'bash(rm*)'; a tool by its name alone is not even offered.",
        show_default=False,
    ),
]
Approve = Annotated[
    list[str] | None,
    typer.Option(
        "--approve",
        metavar="ask|later|never|NAME",
        help="Calls that need approval: ask at the terminal (the default), leave the run waiting for `dragoman "
        "approvals` (the default without a terminal), never allow them, or allow those of the tools of this name or "
        "pattern. May be repeated.",
        show_default=False,
    ),
]
Builtin = Annotated[
    str | None,
    typer.Option(
        "--builtin",
        metavar="NAMES",
        help="The built-in tools that are offered: a list with commas, all or none.",
        show_default=False,
    ),
]
Sandbox = Annotated[
    SandboxName | None,
    typer.Option("--sandbox", help="What confines the commands of bash.", show_default=False),
]
Network = Annotated[
    bool | None,
    typer.Option(
        "--network/--no-network", help="Whether commands in the sandbox reach the network.", show_default=False
    ),
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

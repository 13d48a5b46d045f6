"""The options of commands. A field defines each option of `dragoman run` and `dragoman chat` for both commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container
from copy import copy
from typing import Annotated, Any, get_args, get_type_hints

import typer
from msgspec import Struct
from typer.core import TyperCommand

from dragoman.cli.parameters import PlainGroup, make_plain
from dragoman.types import ModeName, SandboxName, ToolModeName, TrustName


def _option(*names: str, help: str = "", metavar: str | None = None, group: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, show_default=False, rich_help_panel=group)


# The groups of options in `--help`, in their order.
_MODEL, _TOOLS, _SESSION = "Model", "Tools", "Task and session"
_PERMISSIONS, _LIMITS, _OUTPUT = "Permissions", "Limits", "Output"
_GROUPS = ("Arguments", _MODEL, _TOOLS, _SESSION, _PERMISSIONS, _LIMITS, _OUTPUT, "Options")


ONCE = "once"
"""Marks an option that a resumed run does not need again: the journal has it, or it affects only this command."""


class RunOptions(Struct, frozen=True, kw_only=True):
    """The options as they were typed, in the order of `--help`.

    An option with the name of a setting, or of a limit, sets it. All but those marked `ONCE` are repeated in the
    command that resumes a run.
    """

    model: Annotated[
        str | None,
        _option(
            "--model",
            "-m",
            metavar="PROVIDER:MODEL",
            help="The model. A slash works as well as a colon, and the vendor of a known model may be left out.",
            group=_MODEL,
        ),
    ] = None
    fallbacks: Annotated[
        tuple[str, ...],
        _option(
            "--fallback",
            metavar="PROVIDER:MODEL",
            help="A model to use if the endpoint fails. May be repeated; they are tried in order.",
            group=_MODEL,
        ),
    ] = ()
    key: Annotated[
        str | None,
        ONCE,
        _option(
            "--key",
            metavar="@FILE|KEY",
            help="The key of the endpoint. Other users of this machine can see a key that is typed here; @FILE and "
            "variables are safer. `dragoman keys` shows which keys are found.",
            group=_MODEL,
        ),
    ] = None
    tools: Annotated[
        tuple[str, ...],
        _option(
            "--tools",
            "-t",
            metavar="SOURCE",
            help="Your own tools: file.py, package.module, a name in one of them (file.py:name), or entry:NAME. May be "
            "repeated.",
            group=_TOOLS,
        ),
    ] = ()
    mcp: Annotated[
        tuple[str, ...],
        _option(
            "--mcp",
            metavar="[NAME=]SERVER",
            help="An MCP server whose tools are offered: its command in quotes, its URL, or a JSON file with "
            "mcpServers. May be repeated.",
            group=_TOOLS,
        ),
    ] = ()
    system: Annotated[
        str | None,
        ONCE,
        _option(
            "--system", metavar="TEXT|@FILE", help="The system prompt, or a file that contains it.", group=_SESSION
        ),
    ] = None
    attach: Annotated[
        tuple[str, ...],
        ONCE,
        _option(
            "--attach",
            "-a",
            metavar="FILE|URL|-",
            help="An image, a document, a recording or a text file for the first message; - is standard input. May be "
            "repeated.",
            group=_SESSION,
        ),
    ] = ()
    session: Annotated[str | None, ONCE, _option("--session", "-s", metavar="NAME", group=_SESSION)] = None
    resume: Annotated[bool, ONCE, _option("--resume", group=_SESSION)] = False
    approve: Annotated[
        tuple[str, ...],
        _option(
            "--approve",
            metavar="ask|later|never|NAME",
            help="What happens with calls that need approval. ask: ask at the terminal (the default). later: stop the "
            "run until `dragoman approvals` answers (the default without a terminal). never: deny them. NAME: approve "
            "the calls of this tool or pattern. May be repeated.",
            group=_PERMISSIONS,
        ),
    ] = ()
    deny: Annotated[
        tuple[str, ...],
        _option(
            "--deny",
            metavar="RULE",
            help="Calls that never run, such as 'bash(rm*)'. The name of a tool alone hides the tool from the model. "
            "May be repeated.",
            group=_PERMISSIONS,
        ),
    ] = ()
    allow: Annotated[
        tuple[str, ...],
        _option(
            "--allow",
            metavar="RULE",
            help="Calls that need no approval, such as 'bash(git status*)' or 'write(src/**)'. May be repeated.",
            group=_PERMISSIONS,
        ),
    ] = ()
    ask: Annotated[
        tuple[str, ...],
        _option("--ask", metavar="RULE", help="Calls that always need approval. May be repeated.", group=_PERMISSIONS),
    ] = ()
    mode: Annotated[
        ModeName | None,
        _option(
            "--mode",
            help="Which calls run without approval. plan: reads; all other calls are denied. default: reads. edits: "
            "also writes in the workspace. sandboxed: also commands in a sandbox. locked: as default, but denies "
            "instead of asking. bypass: all calls except denied ones.",
            group=_PERMISSIONS,
        ),
    ] = None
    builtin: Annotated[
        str | None,
        _option(
            "--builtin",
            metavar="NAMES",
            help="The built-in tools to offer: names separated by commas, all or none.",
            group=_TOOLS,
        ),
    ] = None
    sandbox: Annotated[
        SandboxName | None, _option("--sandbox", help="The sandbox for the commands of bash.", group=_PERMISSIONS)
    ] = None
    network: Annotated[
        bool | None,
        _option(
            "--network/--no-network", help="Whether commands in the sandbox can use the network.", group=_PERMISSIONS
        ),
    ] = None
    turns: Annotated[
        str | None, _option("--turns", metavar="N", help="The maximum number of requests to the model.", group=_LIMITS)
    ] = None
    tokens: Annotated[
        str | None,
        _option("--tokens", metavar="N", help="The maximum number of tokens, input and output.", group=_LIMITS),
    ] = None
    cost: Annotated[str | None, _option("--cost", metavar="DOLLARS", help="The maximum cost.", group=_LIMITS)] = None
    seconds: Annotated[str | None, _option("--seconds", metavar="N", help="The maximum time.", group=_LIMITS)] = None
    request_options: Annotated[
        tuple[str, ...],
        _option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the request, such as temperature=0.2. May be repeated.",
            group=_MODEL,
        ),
    ] = ()
    base_url: Annotated[
        str, _option("--base-url", metavar="URL", help="The base URL of the endpoint.", group=_MODEL)
    ] = ""
    tool_mode: Annotated[
        ToolModeName | None,
        _option(
            "--tool-mode", help="How tools are offered: as native definitions, or as text in the prompt.", group=_MODEL
        ),
    ] = None
    text_calls: Annotated[
        bool | None,
        _option("--text-calls/--no-text-calls", help="Whether calls in a model's text count at all.", group=_MODEL),
    ] = None
    trust: Annotated[
        TrustName | None, _option("--trust", help="Which calls in a model's text count.", group=_PERMISSIONS)
    ] = None
    workspace: Annotated[
        str | None,
        _option(
            "--workspace",
            metavar="DIR",
            help="The folder in which the tools work; default: the current folder.",
            group=_TOOLS,
        ),
    ] = None
    schema: Annotated[
        str | None,
        _option(
            "--schema",
            metavar="FILE|JSON",
            help="A JSON Schema: a file, or the schema itself. The answer is JSON that follows it.",
            group=_OUTPUT,
        ),
    ] = None
    as_json: Annotated[bool, ONCE, _option("--json", help="Print one JSON object per event.", group=_OUTPUT)] = False
    quiet: Annotated[bool, ONCE, _option("--quiet", "-q", group=_OUTPUT)] = False
    verbose: Annotated[
        bool,
        ONCE,
        _option(
            "--verbose",
            "-v",
            help="Also show the traceback of a tool that failed, and every change of a request.",
            group=_OUTPUT,
        ),
    ] = False
    thinking: Annotated[
        bool, ONCE, _option("--thinking", help="Also show the reasoning of the model.", group=_OUTPUT)
    ] = False
    log: Annotated[
        str | None,
        ONCE,
        _option("--log", metavar="FILE", help="Append one line of JSON per event to this file.", group=_OUTPUT),
    ] = None
    no_journal: Annotated[
        bool, ONCE, _option("--no-journal", help="Do not save the run in the journal.", group=_SESSION)
    ] = False

    def resume_arguments(self) -> list[str]:
        """The arguments that `dragoman run --resume` needs again to continue a run."""
        words: list[str] = []
        for name, row in _rows(type(self)).items():
            value = getattr(self, name)
            if row.is_repeated and value != row.default:
                words += row.write(value)
        return words


# ---- from fields to commands -----------------------------------------------------------------------------------------


class _Row(Struct, frozen=True):
    """A field as typer takes it, and whether a resumed run needs it again."""

    type: Any
    default: Any
    info: Any
    is_repeated: bool

    def parameter(self, name: str, help: str | None, *, hidden: bool = False) -> inspect.Parameter:
        info = copy(self.info)
        info.help, info.hidden = help or info.help, hidden
        hint, default = (list[str] | None, None) if self.default == () else (self.type, self.default)
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, info]
        )

    def write(self, value: Any) -> list[str]:
        # Typer keeps the first name of an option in an annotation as its default.
        yes, _, no = str(self.info.default).partition("/")
        if isinstance(value, bool):
            return [yes if value else no]
        return [word for each in (value if isinstance(value, tuple) else (value,)) for word in (yes, str(each))]


@functools.cache
def _rows(options: type[Struct]) -> dict[str, _Row]:
    rows = {}
    defaults = options()
    for name, hint in get_type_hints(options, include_extras=True).items():
        kind, *marks, info = get_args(hint)
        rows[name] = _Row(kind, getattr(defaults, name), info, ONCE not in marks)
    return rows


def with_options(
    options: type[Struct], *, hidden: Container[str] = (), **helps: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the fields of a class as options; it gets a value of the class as its parameter `options`.

    `helps` replaces the help of single options. The help of the command does not list the options in `hidden`.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        rows = _rows(options)
        own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "options"]

        @functools.wraps(command)
        def call(**values: Any) -> int:
            arguments = {parameter.name: values.pop(parameter.name) for parameter in own}
            typed = {
                name: tuple(values[name] or ()) if row.default == () else values[name] for name, row in rows.items()
            }
            return command(**arguments, options=options(**typed))

        shared = [row.parameter(name, helps.get(name), hidden=name in hidden) for name, row in rows.items()]
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        # Typer would look up the annotations of the command itself.
        call.__annotations__ = {}
        return call

    return decorate


class GroupedCommand(TyperCommand):
    """A command whose `--help` lists the options in groups, with the defaults of the settings."""

    def get_params(self, ctx: Any) -> Any:
        return [make_plain(each) for each in super().get_params(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = getattr(parameter, "rich_help_panel", None) or usual
            words, help = record
            # Typer adds the type of an argument, such as <list[str]>.
            words = words.partition(" <")[0] if usual == "Arguments" else words
            default = _default_of(str(parameter.name)) if title != usual else ""
            groups.setdefault(title, []).append((words, help + default))
        for title in sorted(groups, key=_GROUPS.index):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def _default_of(name: str) -> str:
    """The default of a setting, for the help of the option that has its name."""
    from dragoman.config import SETTINGS

    setting = SETTINGS.get(f"limits.{name}") or SETTINGS.get(name)
    if setting is None or setting.default in (None, "", (), {}) or isinstance(setting.default, dict):
        return ""
    default = setting.default
    shown = "all" if isinstance(default, tuple) else str(default)
    return f"  [default: {'yes' if default is True else 'no' if default is False else shown}]"


# ---- what several commands share -------------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
PromptName = Annotated[
    str | None,
    _option(
        "--prompt",
        "-p",
        metavar="NAME",
        help="A saved prompt (`dragoman prompts` lists them), or mcp:SERVER/PROMPT.",
        group=_SESSION,
    ),
]
Fill = Annotated[
    list[str] | None,
    _option("--fill", metavar="NAME=VALUE", help="A placeholder of the prompt. May be repeated.", group=_SESSION),
]
JournalPath = Annotated[
    str | None,
    _option(
        "--journal",
        "--engine",
        metavar="FILE|ADDRESS",
        help="The journal, if not the default one: a file, or a database such as postgres://user@host/name.",
    ),
]


KeysFile = Annotated[
    str | None,
    _option("--keys", metavar="FILE", help="The file with the keys, if not your own."),
]
Expires = Annotated[str | None, _option("--expires", metavar="30d|DATE", help="When the key ends.")]


def command_group(name: str, help: str) -> typer.Typer:
    """An application with commands of its own; without one of them it prints its help."""
    app = typer.Typer(name=name, cls=PlainGroup, help=help, add_completion=False, rich_markup_mode=None)

    @app.callback(invoke_without_command=True)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return app

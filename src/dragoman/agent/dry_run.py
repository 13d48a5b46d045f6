"""A dry run, which loads what the first real run of an agent needs when the agent is created.

The first run of a process imports modules, compiles patterns and reads tables. In async code that would block the event
loop for a quarter of a second. So an agent does it when it is created: the machine, the codec and the redactors are
pure, and a dry run with an invented reply loads what a real run needs. No request is sent, and no tool, hook or policy
is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman import formats
from dragoman.agent.config import RunConfig
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import Ask, Replied, RunTools, ToolAnswered
from dragoman.agent.redaction import EventRedactor, hide_secrets
from dragoman.extraction.tool_mode import open_reader
from dragoman.replies import unfold
from dragoman.secrets import HumanSink, ModelSink, Secrets, Vault
from dragoman.tools import tool_from_function
from dragoman.toolset import Toolset
from dragoman.types import Message, Part, Reply, Text, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    from dragoman.client.client import Client

_LATE = (
    "jsonschema_rs",
    "docstring_parser",
    "concurrent.futures.thread",
    "email.utils",
    "traceback",
    "dragoman.formats.loose.stage",
)
"""What a run imports only in some cases."""


def _look(place: str, days: int = 1) -> str:
    """Look at a place."""
    return place


def dry_run(config: RunConfig, client: Client, *, journal: bool) -> None:
    """Load what a run with these settings needs."""
    for name in (*_LATE, *(["dragoman.journal.sqlite"] if journal else [])):
        import_module(name)
    client.load()
    probe = tool_from_function(_look, {"name": "look_at_place"})
    machine = Machine(replace(config, tools=Toolset([probe])))
    call = ToolCall("call_1", probe.name, {"place": "Paris", "days": "2"})
    told = machine.start([Message.user("Is it warm in Paris?")])
    shown, model = EventRedactor(HumanSink(Secrets())), ModelSink(Secrets(), Vault("dry-run"))
    replies: list[list[Part]] = [[Text("Let me look.\n"), call], [Text("It is warm in Paris. ```json\n[1]\n```")]]
    for parts in replies:
        ask = next((command for command in told if isinstance(command, Ask)), None)
        if ask is None:
            return
        client.codec.prepare(ask.composed.request)
        if ask.composed.chosen_mode.mode == "text":
            written = formats.render([call], ask.composed.chosen_mode.format)
            parts = [Text(f"Let me look.\n{written}")] if call in parts else parts
        reader = open_reader(ask.composed, machine.conversation)
        for event in unfold(Reply(Message("assistant", parts), Usage(1, 1), "end")):
            for each in reader.feed(event):
                shown.show(each)
        reader.close()
        told = machine.receive(Replied(reader.reply, reader.extraction, 0.0, config.endpoint.model))
        for planned in [each for command in told if isinstance(command, RunTools) for each in command.batch]:
            result = hide_secrets(ToolResult(planned.call.id, planned.call.name, "sunny, 21 degrees"), model)
            told = machine.receive(ToolAnswered(planned.call.id, result))

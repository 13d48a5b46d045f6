"""The demo without a model: the engine on a few replies that ship with the package."""

from __future__ import annotations

from importlib.resources import files
from time import perf_counter
from typing import Any

import msgspec

from dragoman import formats
from dragoman.cli.report import as_data, draw
from dragoman.cli.screen import Screen
from dragoman.events import CallEnded
from dragoman.stage import collect
from dragoman.toolset import Toolset
from dragoman.types import ToolCall


class Sample(msgspec.Struct, frozen=True):
    """One reply and what is worth seeing in it."""

    file: str
    title: str
    loose: bool = False

    @property
    def text(self) -> str:
        return _read(self.file)


def show_replies(screen: Screen) -> None:
    """Show what is found in each reply."""
    offered = tools()
    screen.line(
        ("dragoman", "bold"), f" reads what a model wrote and finds the calls in it. Tools: {', '.join(offered.names)}."
    )
    seconds = 0.0
    streamed_alike = 0
    shown = samples()
    for number, sample in enumerate(shown, start=1):
        screen.line()
        screen.line((f"== {number}. {sample.title}", "bold cyan"))
        screen.line()
        screen.block(sample.text.rstrip("\n"), indent=0, style="dim")
        streamed = _calls_when_streamed(sample, offered)  # first, so that what is prepared once is not in the figure
        started = perf_counter()
        parsed = formats.parse(sample.text, tools=offered, loose=sample.loose)
        seconds += perf_counter() - started
        draw(screen, sample.text, parsed)
        streamed_alike += streamed == parsed.calls
    screen.line()
    screen.line(
        f"{len(shown)} replies read in {seconds * 1000:.1f} ms; fed one character at a time, "
        f"{streamed_alike} of {len(shown)} give the same calls."
    )
    screen.line("Next: dragoman parse FILE on a reply of your own, dragoman formats for every spelling,")
    screen.line("      dragoman convert to carry a request to another provider, dragoman providers for all of them.")


def replies_as_data() -> list[dict[str, Any]]:
    """The same for a program."""
    offered = tools()
    shown = []
    for sample in samples():
        parsed = formats.parse(sample.text, tools=offered, loose=sample.loose)
        shown.append({"title": sample.title, "reply": sample.text, **as_data(sample.text, parsed)})
    return shown


def samples() -> list[Sample]:
    """The replies that ship with the package, in the order of telling."""
    return msgspec.json.decode(_read("index.json"), type=list[Sample])


def tools() -> Toolset:
    """The tools that are offered in every sample."""
    return Toolset(msgspec.json.decode(_read("tools.json"), type=list[dict[str, object]]))


def _calls_when_streamed(sample: Sample, offered: Toolset) -> list[ToolCall]:
    parser = formats.parser(tools=offered, loose=sample.loose)
    return [event.call for event in collect(parser, sample.text) if isinstance(event, CallEnded)]


def _read(name: str) -> str:
    return (files("dragoman") / "samples" / name).read_text(encoding="utf-8")

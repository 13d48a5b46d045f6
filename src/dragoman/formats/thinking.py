"""The tags around a model's reasoning, as a table, and the reader for think tags with a suffix.

The row of a format lists the tags of its own models; `auto` searches for all of these. A call inside reasoning is a
draft: the parser reports it as refused, or leaves it as thinking, and it never counts.
"""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.formats.cursor import Cursor, Markers, NotACall, Reader
from dragoman.formats.template import Entry

THINKING_FIELDS = ("thinking", "reasoning_content", "reasoning")
"""The names that chat templates and servers give to the reasoning of a message."""
_suffix = re.compile(r"[\w.\-]{1,40}\Z").match


class Wrapper(Struct, frozen=True):
    """The tags around the reasoning of some models. `named` wrappers are common words; `more_thinking` adds them."""

    pairs: tuple[tuple[str, str], ...]
    models: str
    named: bool = False


_NAMED = ("reasoning", "thinking", "thought", "scratchpad", "antThinking", "analysis")

WRAPPERS: tuple[Wrapper, ...] = (
    Wrapper((("<think>", "</think>"),), "DeepSeek, Qwen3, GLM, Kimi, MiniMax, Nemotron and most others"),
    Wrapper(
        (
            ("<seed:think>", "</seed:think>"),
            ("<longcat_think>", "</longcat_think>"),
            ("<mm:think>", "</mm:think>"),
            ("<iquest_think>", "</iquest_think>"),
        ),
        "Seed-OSS, LongCat, MiniMax M3, IQuest; Hy3 and Hy4 write <think:suffix>",
    ),
    Wrapper(
        (
            ("<ifm|think>", "</ifm|think>"),
            ("<ifm|think_fast>", "</ifm|think_fast>"),
            ("<ifm|think_faster>", "</ifm|think_faster>"),
        ),
        "K2 Horizon",
    ),
    Wrapper((("◁think▷", "◁/think▷"),), "Kimi-VL, Kimi k1.5"),
    Wrapper((("[THINK]", "[/THINK]"),), "Magistral, Ministral 3"),
    Wrapper((("<|channel|>analysis<|message|>", "<|end|>"),), "gpt-oss"),
    Wrapper((("<|channel>thought", "<channel|>"),), "Gemma 4"),
    Wrapper((("<|turn|>thinking", "<turn|>"),), "Gemma 4 behind servers that change its tokens"),
    Wrapper((("<unused94>thought", "<unused95>"),), "MedGemma"),
    Wrapper((("<|begin_of_thought|>", "<|end_of_thought|>"),), "OpenThinker, Sky-T1"),
    Wrapper((("<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"),), "Hermes in agents"),
    Wrapper((("<|START_THINKING|>", "<|END_THINKING|>"),), "Cohere Command"),
    Wrapper((("<|open|>think<|sep|>", "<|close|>think<|sep|>"),), "Kimi K3"),
    Wrapper((("<|content_thinking|>", "<|end_message|>"),), "Inkling"),
    Wrapper((("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),), "PLaMo 3"),
    Wrapper((("<|inner_prefix|>", "<|inner_suffix|>"),), "Apertus"),
    Wrapper((("Here is my thought process:", "Here is my response:"),), "Granite 3.2, 3.3"),
    Wrapper((("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),), "Apriel 1.6"),
    Wrapper((("<think>", "</think>"),), "Hunyuan A13B, which wraps its answer in <answer> as well"),
    Wrapper(
        tuple((f"<{tag}>", f"</{tag}>") for tag in _NAMED),
        "assorted fine-tunes",
        named=True,
    ),
)


def pairs(*, named: bool) -> list[tuple[str, str]]:
    """Return the tags of every wrapper; those that are common words only if `named` is set."""
    return [pair for wrapper in WRAPPERS if named or not wrapper.named for pair in wrapper.pairs]


ORPHANS = frozenset(closer for _, closer in pairs(named=True) if "think" in closer.lower() or closer.startswith("</"))
"""Closers that mean nothing but the end of reasoning. Without an opener, the reply began inside its reasoning."""


class SuffixedThink(Entry):
    """`<think:suffix>`, closed by a tag with the same suffix. Each checkpoint has its own suffix."""

    format = ""
    openers: tuple[str, ...] = ("<think:",)

    def __init__(self) -> None:
        self._opener = Markers(self.openers)
        self._end = Markers((">",))

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        mark = cursor.begin()
        while True:
            hit = self._end.find(cursor.text, cursor.position, final=cursor.final)
            cursor.position = len(cursor.text) if hit is None else hit[0]
            suffix = cursor.since(mark)
            if hit is not None:
                break
            if len(suffix) > 40:
                raise NotACall("the tag does not end")
            yield from cursor.need()
        if _suffix(suffix) is None:
            raise NotACall("the think tag has no suffix")
        cursor.position += 1
        cursor.enter_thinking(f"</think:{suffix}>")

"""Formats whose messages run in channels, behind headers and special tokens."""

from __future__ import annotations

from dragoman.formats.odd.harmony import Harmony, HarmonyRecipient, write_harmony
from dragoman.formats.odd.inkling import InklingHeader, write_inkling
from dragoman.formats.odd.kimi_k3 import KimiK3, write_kimi_k3
from dragoman.formats.odd.minimax_m3 import MinimaxM3, write_minimax_m3
from dragoman.formats.odd.muse_glimmer import MuseGlimmer, MuseGlimmerRecipient, write_muse_glimmer
from dragoman.formats.row import THINK, Format

ROWS: tuple[Format, ...] = (
    Format(
        name="harmony",
        entries=(Harmony(), HarmonyRecipient()),
        writer=write_harmony,
        thinking=(("<|channel|>analysis<|message|>", "<|end|>"),),
        drop=("<|call|>", "<|end|>", "<|return|>", "<|message|>"),
        aliases=("gpt_oss", "openai"),
        family="H",
        models="gpt-oss 20b, 120b",
    ),
    Format(
        name="kimi_k3",
        entries=(KimiK3(),),
        writer=write_kimi_k3,
        thinking=(("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
        aliases=("kimi_k3_xtml",),
        family="C",
        models="Kimi K3",
    ),
    Format(
        name="minimax_m3",
        entries=(MinimaxM3(),),
        writer=write_minimax_m3,
        thinking=(("<mm:think>", "</mm:think>"), *THINK),
        family="D",
        models="MiniMax M3",
    ),
    Format(
        name="inkling",
        template="<|content_invoke_tool_json|>{call}<|end_message|>",
        entries=(InklingHeader(),),
        writer=write_inkling,
        keys=("name", "args"),
        thinking=(("<|content_thinking|>", "<|end_message|>"),),
        drop=("<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"),
        family="H",
        models="Inkling",
    ),
    Format(
        name="muse_glimmer",
        entries=(MuseGlimmer(), MuseGlimmerRecipient()),
        writer=write_muse_glimmer,
        thinking=(("<|start|>assistant to=self<|message|>", "<|eom|>"),),
        drop=("<|eom|>", "<|eot|>"),
        family="D",
        models="Muse Glimmer",
    ),
)

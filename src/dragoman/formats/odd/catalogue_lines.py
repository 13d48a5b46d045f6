"""Spellings that no model was trained on but many improvise, and the plain words of older prompts."""

from __future__ import annotations

from dragoman.formats.odd.attributes import InlineAttributes, SelfClosing, TagWithName, write_attributes
from dragoman.formats.odd.command_r import CommandR, write_command_r
from dragoman.formats.odd.elements import BareElement, TaggedElement, write_elements
from dragoman.formats.odd.lines import GlmLine, GlmTagged, write_lines
from dragoman.formats.odd.perl import Perl, PerlWithoutBrackets, write_perl
from dragoman.formats.odd.react import React, write_react
from dragoman.formats.odd.recipients import FirstRecipient, FirstWord, Recipient, write_recipients
from dragoman.formats.row import Format

ROWS: tuple[Format, ...] = (
    Format(
        name="xml_elements",
        entries=(TaggedElement(), BareElement()),
        writer=write_elements,
        aliases=("xml_element_per_argument", "morph_xml"),
        family="I",
        models="agents in the manner of Cline and Roo",
    ),
    Format(
        name="xml_attributes",
        entries=(TagWithName(), InlineAttributes(), SelfClosing()),
        writer=write_attributes,
        family="I",
        models="local models",
    ),
    Format(
        name="perl",
        entries=(Perl(), PerlWithoutBrackets()),
        writer=write_perl,
        aliases=("tool_call_perl",),
        family="I",
        models="MiniMax behind some hosts, local models",
    ),
    Format(
        name="glm_lines",
        entries=(GlmLine(), GlmTagged()),
        writer=write_lines,
        aliases=("glm_short", "cli_line"),
        family="I",
        models="GLM in agents",
    ),
    Format(
        name="cohere_command_r",
        entries=(CommandR(),),
        writer=write_command_r,
        aliases=("command_r",),
        family="B",
        models="Command R, R+ (2024)",
    ),
    Format(
        name="react",
        entries=(React(),),
        writer=write_react,
        aliases=("react_text",),
        family="I",
        models="models prompted in the ReAct manner",
    ),
    Format(
        name="functionary_v32",
        entries=(Recipient(), FirstRecipient()),
        named_entries=(FirstWord(),),
        writer=write_recipients,
        aliases=("functionary_v3.2",),
        family="I",
        models="Functionary 3.2",
    ),
)

"""The words that wrap calls: what may stand between a name and its arguments without meaning anything."""

from __future__ import annotations


def _words(lines: str) -> frozenset[str]:
    return frozenset(lines.split())


NAME_WORDS = _words("""
    action api begin call calls code func function functioncall functionname functions functools invoke message method
    model name plugin recipient request start tag to tool toolcall toolname tools use uses
""")
"""Words behind which the name of a tool stands."""

ARGUMENT_WORDS = _words("""
    arg args argument arguments input inputs json kwargs param parameter parameters params payload
""")
"""Words behind which the arguments stand."""

MARKUP_WORDS = (
    NAME_WORDS
    | ARGUMENT_WORDS
    | _words("""
        array assistant atem bool boolean cdata channel close commentary constrain constraint content data default dict
        dots double dsml end eom eot escape false final float for gcml header id ifm im index int integer iquest is item
        items key list longcat marker minimax msg none null number object open output parallel plamo prefix python
        required role section seed sep separator steptml str string suffix system text true type value values
    """)
)
"""Every word of every wrapper in the catalogue, and of the objects that APIs write around a call."""

COUNTED_WORDS = _words("call calls functions id index")
"""Words behind which an identifier may stand that says nothing about the call."""

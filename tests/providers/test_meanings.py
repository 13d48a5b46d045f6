"""Every quirk is explained where it is declared, and the explanation is found."""

from __future__ import annotations

from dragoman import providers
from dragoman.providers.registry import changed_quirks, quirk_defaults, quirk_meanings
from dragoman.wire.quirks import DEFAULTS, Quirks


def test_every_quirk_has_a_default_and_a_meaning() -> None:
    assert list(quirk_meanings()) == list(quirk_defaults()) == list(Quirks.__struct_fields__)
    assert [name for name, meaning in quirk_meanings().items() if not meaning.endswith(".")] == []


def test_only_what_differs_is_worth_showing() -> None:
    assert changed_quirks(DEFAULTS) == {}
    assert changed_quirks(Quirks(name_limit=3)) == {"name_limit": 3}


def test_taking_reasoning_for_the_answer_is_off_everywhere() -> None:
    assert not any(
        providers.resolve(row, "some-model").quirks.reasoning_as_content for row in providers.default() if row.wires
    )

"""The file that `config init` writes names every setting, and is right once its lines are switched on."""

from __future__ import annotations

import re

import pytest
from tests.config.conftest import Place

from dragoman.config import SETTINGS, write_template


def switch_on(template: str) -> str:
    """The template with the `#` removed from every setting, the tables at its end included."""
    settings = re.sub(r"^#(?=[a-z_]+ = )", "", template, flags=re.MULTILINE)
    return re.sub(r"^# (?=\[|[a-z_]+ = )", "", settings, flags=re.MULTILINE)


@pytest.mark.parametrize("project", [False, True], ids=["user", "project"])
def test_as_it_is_written_it_changes_nothing(place: Place, project: bool) -> None:
    text = write_template(project=project)
    config = place.load(None if project else text, text if project else None)
    assert [name for name in SETTINGS if config.origin(name).kind != "default"] == []


def test_a_users_file_with_everything_switched_on_is_accepted(place: Place) -> None:
    config = place.load(switch_on(write_template(project=False)))
    silent = {name for name in SETTINGS if config.origin(name).kind == "default"}
    # Fields of one wire have no example that would suit everybody.
    assert silent == {name for name in SETTINGS if name.startswith("options.") and not SETTINGS[name].in_project}


def test_a_projects_file_with_everything_switched_on_is_accepted(place: Place) -> None:
    text = switch_on(write_template(project=True))
    place.load(project=text)
    for name, setting in SETTINGS.items():
        assert bool(re.search(rf"^{name.rpartition('.')[2]} = ", text, re.MULTILINE)) >= setting.in_project, name
    assert "keys" not in text.split("configuration.")[-1]

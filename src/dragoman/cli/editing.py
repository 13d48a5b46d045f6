"""Changing the arguments of a call by hand: typed on the line, or in the editor of whoever is asked."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec


class EditingFailed(Exception):
    """Nothing usable came out of it; it can be tried again."""


async def edit_json(text: str, before: dict[str, Any]) -> dict[str, Any]:
    """Other arguments: those that were typed, or whatever the editor was left with."""
    if not text:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            raise EditingFailed('type the arguments behind it: e {"path": "..."}; or set EDITOR')
        text = await asyncio.to_thread(_in_editor, editor, json.dumps(before, ensure_ascii=False, indent=2))
    try:
        arguments: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise EditingFailed(f"that is no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise EditingFailed("arguments are an object: {...}")
    return arguments


def _in_editor(editor: str, text: str) -> str:
    """The text as somebody left it. It may hold secrets: nobody else can read the file, and it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        file = Path(folder) / "arguments.json"
        file.touch(mode=0o600)
        file.write_text(text + "\n", encoding="utf-8")
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise EditingFailed(f"{editor} cannot be started: {error}") from None
        if ended.returncode:
            raise EditingFailed(f"{editor} ended with {ended.returncode}; nothing was changed")
        return file.read_text(encoding="utf-8", errors="replace")

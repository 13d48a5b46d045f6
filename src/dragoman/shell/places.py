"""Where the commands of a line read: which files they name, and whether those lie outside the folder it starts in."""

from __future__ import annotations

from collections.abc import Iterable


class Places:
    """Follows a line from command to command, as far as the spelling of its paths tells."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.leaves = False
        self.is_outside = False
        self._depth = 0

    def escapes(self, path: str) -> bool:
        """Whether a path leads out of the folder that the line starts in."""
        return self._follow(path) is None

    def move(self, folder: str) -> None:
        """Change the current folder, as `cd` does."""
        depth = self._follow(folder)
        self.is_outside = depth is None
        self._depth = depth or 0

    def note(self, paths: Iterable[str]) -> None:
        """Keep these as files that are read."""
        for path in paths:
            if path == "-":
                continue
            self.paths.append(path)
            self.leaves = self.leaves or self.escapes(path)

    def note_suspects(self, words: Iterable[str]) -> None:
        """Keep those of these words that only make sense as paths to other places."""
        self.note(word for word in words if word.startswith(("/", "~", "../")) or word == ".." or "/../" in word)

    def search(self, operands: list[str]) -> None:
        """Read the current folder where no other is named."""
        if not operands and self.is_outside:
            self.leaves = True

    def _follow(self, path: str) -> int | None:
        """How deep below the start the path lies; None for outside."""
        if path.startswith(("/", "~")) or self.is_outside:
            return None
        depth = self._depth
        for step in path.split("/"):
            if step == "..":
                depth -= 1
            elif step not in ("", "."):
                depth += 1
            if depth < 0:
                return None
        return depth

"""What the learner has built in a step that passes, drawn from their own answers."""

from __future__ import annotations

from pathlib import Path


class Built:
    """The process that draws."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def html(self, name: str) -> str:
        """The pictures of a step."""
        return ""

    def close(self) -> None:
        """Ends it."""

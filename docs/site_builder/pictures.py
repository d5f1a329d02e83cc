"""Pictures."""

from typing import Any


def setup(app: Any) -> dict[str, bool]:
    return {"parallel_read_safe": True}

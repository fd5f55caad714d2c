"""Routes that FastAPI makes once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from api.http.parameters import only_plain


class Routes(APIRouter):
    """Routes that refuse what `only_plain` refuses, and that are added as they are; of a router, nothing else is.

    FastAPI makes each route of a router that it includes once more, with the first request: an instance would answer
    that much later.

    Args:
        given: as for `APIRouter`.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given | {"dependencies": [Depends(only_plain), *given.get("dependencies", ())]})

    def add(self, more: Routes) -> None:
        """Add routes behind those that there are, with the prefix and the tags that they were made with."""
        self.routes.extend(more.routes)

"""What a client may ask for boards with."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import WithJsonSchema

from api.http.parameters import WHOLE_NUMBER, HowMany, page_size_of
from runtime.keys import Int64

ID_SCHEMA: Final = WithJsonSchema(dict(Int64.json_schema))
_Id = Annotated[int, WHOLE_NUMBER, ID_SCHEMA]

ProductId = Annotated[_Id, Path(alias="productId", description="a product", examples=[1])]
First = Annotated[_Id, Path(alias="from", description="the lowest product id, inclusive", examples=[1])]
Last = Annotated[_Id, Path(alias="to", description="the highest product id, inclusive", examples=[6])]
PageSize = Annotated[
    HowMany, page_size_of("at most so many boards, in ascending order of their product ids; all when left out")
]
After = Annotated[
    int | None,
    WHOLE_NUMBER,
    ID_SCHEMA,
    Query(description="only boards above this product id, the last one of the page before; goes with `page_size`"),
]

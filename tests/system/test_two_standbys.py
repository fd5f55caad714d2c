"""Three instances with two standbys behind a load balancer: each has a copy of everything, and forwards nothing."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.drivers.deployment import Deployment
from tests.drivers.forwards import forwarded_while
from tests.drivers.nginx import Nginx
from tests.drivers.replicas import until
from tests.drivers.sample import PRODUCTS

pytestmark = pytest.mark.system


def test_where_each_instance_has_a_copy_of_everything_no_read_is_forwarded(tmp_path: Path) -> None:
    with Deployment(tmp_path, NUM_STANDBY_REPLICAS=2) as deployment:
        members = deployment.replicas.members
        answered_by: set[str] = set()
        with Nginx(tmp_path / "nginx", [member.port for member in members]) as nginx, httpx.Client() as client:

            def read_all() -> None:
                for path in (
                    *(f"/leaderboard/{product}" for product in PRODUCTS),
                    "/leaderboard",
                    "/leaderboard/count",
                ):
                    answer = client.get(f"{nginx.url}{path}", headers={"Connection": "close"})
                    assert answer.status_code == 200
                    answered_by.update(answer.headers.get_list("x-served-by"))

            until(
                lambda: forwarded_while(members, read_all) == 0 and len(answered_by) == len(members),
                lambda: f"whoever is asked answers from its own copies: {answered_by}",
            )

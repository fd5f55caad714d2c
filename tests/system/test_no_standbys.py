"""Two instances without standbys: what the lost one held cannot be answered, and says so, until the other has it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.replicas import until
from tests.drivers.sample import PRODUCTS

pytestmark = pytest.mark.system


def test_the_keys_of_a_lost_instance_answer_503_until_the_other_has_restored_them(tmp_path: Path) -> None:
    with Deployment(tmp_path, size=1, NUM_STANDBY_REPLICAS=0) as deployment:
        replicas = deployment.replicas
        (victim,) = replicas.members
        # Whoever was alone once still has copies of all, and would answer from them.
        (left,) = replicas.add()
        replicas.wait_until_settled()
        hosts = replicas.hosts(left).values()
        assert [(len(host["active"]), host["standby"]) for host in hosts] == [(2, []), (2, [])]
        lost, kept = held_by(victim, left), held_by(left, left)
        assert lost
        assert kept

        replicas.kill(victim)
        for path in (*map(board, lost), "/leaderboard"):
            assert_unavailable(left.get(path))

        def restored() -> bool:
            assert all(is_answered(deployment, left, each) for each in kept), "what it holds it goes on answering"
            answered = [is_answered(deployment, left, each) for each in lost]
            return all(answered)

        until(restored, lambda: f"{lost} are answered: {left.log()[-3000:]}")
        replicas.wait_until_settled()
        (host,) = replicas.hosts(left).values()
        assert (len(host["active"]), host["standby"]) == (4, [])
        left.wait_for_boards(deployment.sample.reference.boards())


def board(product: int) -> str:
    """Return where a board is."""
    return f"/leaderboard/{product}"


def held_by(instance: Instance, asked: Instance) -> list[int]:
    """Return the products whose boards an instance holds, as the one that is asked says."""
    active = {product: asked.get(f"/hosts/{product}").json()["active"] for product in PRODUCTS}
    return [product for product, host in active.items() if f"{host['host']}:{host['port']}" == instance.address]


def is_answered(deployment: Deployment, instance: Instance, product: int) -> bool:
    """Return whether a board is answered, whole and right; what is no such answer says that it is unavailable."""
    answer = instance.get(board(product))
    if answer.status_code != 200:
        assert_unavailable(answer)
        return False
    assert answer.content == deployment.expected[board(product)].body
    return True


def assert_unavailable(answer: httpx.Response) -> None:
    """Check that an answer is a 503 that says why, and when to come again."""
    assert answer.status_code == 503, answer.text
    assert answer.json()["type"] == "urn:problem-type:leaderboard:partitions-unavailable"
    assert int(answer.headers["retry-after"]) > 0

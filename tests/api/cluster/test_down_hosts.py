"""A host that failed is avoided until it answers or a short time has passed."""

from __future__ import annotations

from api.cluster.down_hosts import DownHosts
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.cluster import Clock

HOST = HostInfo("b", 7000)


def test_a_host_that_failed_is_avoided_until_it_answers() -> None:
    down = DownHosts(2.0, Clock())
    assert not down.avoided()
    down.failed(HOST)
    assert down.avoided() == {HOST}
    down.answered(HOST)
    assert not down.avoided()


def test_a_host_that_failed_is_avoided_until_the_time_has_passed() -> None:
    clock = Clock()
    down = DownHosts(2.0, clock)
    down.failed(HOST)
    clock.now += 1.9
    assert down.avoided() == {HOST}
    clock.now += 0.2
    assert not down.avoided()


def test_one_request_tries_a_host_again_while_the_others_avoid_it() -> None:
    clock = Clock()
    down = DownHosts(2.0, clock)
    down.failed(HOST)
    clock.now += 3
    down.trying(HOST)
    assert down.avoided() == {HOST}


def test_a_host_that_nobody_has_asked_for_long_is_forgotten() -> None:
    clock = Clock()
    down = DownHosts(2.0, clock)
    down.failed(HOST)
    clock.now += 61
    down.failed(HostInfo("c", 7000))
    down.trying(HOST)
    assert HOST in down.avoided(), "one request tries it, the others wait"
    clock.now += 63
    down.failed(HostInfo("c", 7000))
    down.trying(HOST)
    assert HOST not in down.avoided()


def test_trying_a_host_that_is_up_changes_nothing() -> None:
    down = DownHosts(2.0, Clock())
    down.trying(HOST)
    assert not down.avoided()

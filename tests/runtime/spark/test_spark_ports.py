"""Spark's JVM on this machine can be reached from this machine only."""

from __future__ import annotations

from ipaddress import ip_address

import psutil

from runtime.spark.session import Spark
from tests.drivers.processes import is_java


def test_the_driver_listens_on_loopback_only(spark: Spark) -> None:
    assert spark.session.range(3).count() == 3
    listening = {
        connection.laddr.ip
        for process in psutil.Process().children(recursive=True)
        if is_java(process)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening
    addresses = [ip_address(each.removeprefix("::ffff:")) for each in listening]
    assert all(each.is_loopback for each in addresses), addresses

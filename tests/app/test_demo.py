"""What the demo does before anything of it runs."""

from __future__ import annotations

import socket

import pytest

from app import demo
from app.settings import Settings
from app.topologies import load_application
from tests.drivers.ports import free_port


class Stopped(Exception):
    """The demo got as far as the test wants."""


def test_the_port_is_kept_while_the_class_data_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()

    def while_made() -> None:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        raise Stopped

    settings = Settings()
    monkeypatch.setattr(demo, "make_spark_class_data", while_made)
    with pytest.raises(Stopped):
        demo.run_demo(settings, load_application(settings.topology, depth=settings.depth), port=port, once=True)

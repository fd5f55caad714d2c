"""What every test may use: one real broker a session, and asyncio for async tests."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from app.broker import Broker

# What is tried is right or wrong, however long a busy machine takes for it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Run async tests on uvloop, as the service does."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running Kafka broker, shared by all tests of the session: use topic names of your own."""
    # A machine that stands still for seconds is no reason to declare the only node dead.
    patient = {"broker.session.timeout.ms": "60000"}
    with Broker(tmp_path_factory.mktemp("broker"), settings=patient) as running:
        yield running


@pytest.fixture
def at_a_terminal() -> Iterator[None]:
    """Have what is started end with its terminal, also where the tests are run by `nohup`."""
    usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, usual)

"""The embedded broker: ready when it says so, durable, alone on its directory, gone with its parent."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from app.errors import BrokerFailed, SetupError
from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import TopicSpec, create_missing
from tests.drivers.processes import command_line
from tests.waiting import wait_until


async def _produce(kafka: KafkaConnection, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(**kafka.for_aiokafka(), acks="all", enable_idempotence=True) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def _read(kafka: KafkaConnection, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(topic, **kafka.for_aiokafka(), auto_offset_reset="earliest")
    async with consumer:
        return [(await consumer.getone()).value for _ in range(count)]


async def test_a_topic_can_be_made_and_written_the_moment_it_is_ready(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        await create_missing(broker.connection, [TopicSpec("t", 1)])
        await _produce(broker.connection, "t", [b"1", b"2"])
        assert await _read(broker.connection, "t", 2) == [b"1", b"2"]
    assert not broker.running


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_restart_keeps_what_was_written(tmp_path: Path, end: str) -> None:
    broker = Broker(tmp_path)
    broker.start()
    try:
        await create_missing(broker.connection, [TopicSpec("t", 1)])
        await _produce(broker.connection, "t", [b"kept"])
        getattr(broker, end)()
        assert not broker.running
        broker.start()
        assert await _read(broker.connection, "t", 1) == [b"kept"]
    finally:
        broker.stop()


def test_a_taken_port_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port} of 127.0.0.1 is taken: .*another port"):
            Broker(tmp_path, port).start()


def test_a_data_dir_in_use_is_one_clear_error_and_leaves_its_broker_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.java.broker.DATA_DIR_DEADLINE_S", 0.1)
    with Broker(tmp_path) as first:
        with pytest.raises(SetupError, match=f"{tmp_path} is in use by another broker"):
            Broker(tmp_path).start()
        assert first.running


def test_a_data_dir_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"the broker cannot write in .*/file/data"):
        Broker(tmp_path / "file" / "data").start()


def test_a_file_that_cannot_be_written_is_one_clear_error_as_well(tmp_path: Path) -> None:
    (tmp_path / "server.properties").mkdir()
    with pytest.raises(SetupError, match=rf"the broker cannot write in {tmp_path} \(Is a directory\)"):
        Broker(tmp_path, jvm_flags=()).start()
    (tmp_path / "server.properties").rmdir()
    with Broker(tmp_path) as broker:
        assert broker.running


def test_a_storage_that_is_formatted_too_slowly_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.java.broker.FORMAT_DEADLINE_S", 0.01)
    with pytest.raises(BrokerFailed, match=rf"storage in {tmp_path} was not formatted .*: see {tmp_path}/broker\.log"):
        Broker(tmp_path).start()


def test_a_data_dir_with_a_comma_is_one_clear_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot write in .*/a,b: choose a directory without a comma"):
        Broker(tmp_path / "a,b").start()
    assert list(tmp_path.iterdir()) == []


def test_a_data_dir_may_have_any_other_name_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Java reads and writes names of files in the locale's encoding.
    monkeypatch.setenv("LC_ALL", "POSIX")
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.setenv(name, "-javaagent:/gone.jar")
    data_dir = tmp_path / "jeux d'été 🎮 \\u0041=#\"\n"
    with Broker(data_dir):
        assert (data_dir / "topics" / "meta.properties").exists()
    assert list(tmp_path.iterdir()) == [data_dir]


def test_a_broker_that_dies_at_its_start_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=x\n")
    broker = Broker(tmp_path)
    with pytest.raises(BrokerFailed, match=rf"ended by itself \(java.*Exception: .*node.id.*\): see {broker.log_path}"):
        broker.start()
    assert not broker.running


PARENT = """
import sys
from pathlib import Path
from app.java.broker import Broker
broker = Broker(Path(sys.argv[1]))
broker.start()
print(broker.bootstrap_servers, flush=True)
sys.stdin.read()
"""


def _java_of(parent: psutil.Process) -> psutil.Process | None:
    return next((child for child in parent.children(recursive=True) if "kafka.Kafka" in command_line(child)), None)


@pytest.mark.parametrize("moment", ["starting", "ready"])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, moment: str) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        family = psutil.Process(parent.pid)
        if moment == "ready":
            assert parent.stdout.readline()
        wait_until(lambda: _java_of(family) is not None, "the broker's process is there")
        started = family.children(recursive=True)
        parent.kill()
    wait_until(
        lambda: not any(process.is_running() for process in started), "the broker and its guard end", deadline_s=8
    )


def test_it_leaves_no_process_behind(tmp_path: Path) -> None:
    with Broker(tmp_path):
        started = psutil.Process(os.getpid()).children(recursive=True)
        mine = [process for process in started if str(tmp_path) in " ".join(command_line(process))]
        assert mine
    wait_until(lambda: not any(process.is_running() for process in mine), "the broker and its guard end", deadline_s=3)

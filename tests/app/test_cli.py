"""The command line: one line and status 2 for what the user must put right; signals end the broker."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import leaderboard
from app.errors import SetupError
from app.java.broker import Broker
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import TopicOffsets, topic_offsets
from tests.drivers.command import OF_PYSPARK, run_command
from tests.drivers.ports import free_port, free_ports
from tests.waiting import UNHURRIED_S, wait_until

COMMAND = [sys.executable, "-m", "app.cli"]


@pytest.fixture(autouse=True)
def no_variables_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in the process of the tests leaves some in the environment, and commands would speak of them."""
    for name in OF_PYSPARK:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands say how log lines look, for their whole process: here tests of others come after them."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {each: each.level for each in _loggers()}
    yield
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
    for each in _loggers():
        # Those of libraries that nobody had named before, too.
        each.setLevel(levels.get(each, logging.NOTSET))
    logging.captureWarnings(False)


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]


def test_the_commands_are_those_of_the_contract() -> None:
    assert sorted(leaderboard.commands) == ["broker", "demo", "describe", "jars", "load", "moderate", "serve", "verify"]
    for name in leaderboard.commands:
        result = CliRunner().invoke(leaderboard, [name, "--help"])
        assert result.exit_code == 0, result.output
    assert "--once" in CliRunner().invoke(leaderboard, ["demo", "--help"]).output


@pytest.mark.parametrize(
    ("form", "begins"), [("text", "Topology: leaderboard\n"), ("mermaid", "flowchart LR\n"), ("svg", "<svg ")]
)
def test_the_topology_is_described_in_three_ways(form: str, begins: str) -> None:
    result = CliRunner().invoke(leaderboard, ["describe", "--format", form])
    assert result.exit_code == 0
    assert result.output.startswith(begins)
    assert "high-scores" in result.output
    if form == "text":
        assert CliRunner().invoke(leaderboard, ["describe"]).output == result.output


@pytest.mark.parametrize("given", ["option", "setting"])
def test_another_topology_is_described_as_it_is_declared(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = ["--topology", "word-count"] if given == "option" else []
    if given == "setting":
        monkeypatch.setenv("LEADERBOARD_TOPOLOGY", "word-count")
    result = CliRunner().invoke(leaderboard, ["describe", *option])
    assert result.output.startswith("Topology: word-count\n")
    assert "counts-store" in result.output


@pytest.mark.parametrize("command", ["serve", "demo", "load", "describe", "verify"])
def test_every_command_that_needs_a_topology_says_when_there_is_none_of_that_name(command: str) -> None:
    line = "leaderboard: LEADERBOARD_TOPOLOGY=word-cuont is no topology: did you mean word-count?\n"
    arguments = [*COMMAND, command, "--topology", "word-cuont"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=UNHURRIED_S, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (2, line, "")


def test_a_topology_of_ones_own_is_loaded_from_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "towns.py").write_text(
        "from runtime import Count, Key, PlainText, Store, Stream, Text, Topology\n"
        'KEY, STREAM = Key("text", Text), Stream("lines", PlainText())\n'
        'TOWNS = Topology("towns", STREAM, [Store("visits", "visits-by-town", KEY, {"times": Count()})])\n'
    )
    program = [str(Path(sys.executable).with_name("leaderboard")), "describe", "--topology", "towns:TOWNS"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=UNHURRIED_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Topology: towns\n")


@pytest.mark.parametrize("given", ["lines", "=file", "lines="])
def test_records_without_a_topic_or_a_file_are_refused_at_once(given: str) -> None:
    done = CliRunner().invoke(leaderboard, ["load", "--topology", "word-count", "--records", given])
    assert done.exit_code == 2
    assert f"{given!r} names no topic with a file: give it as TOPIC=FILE." in done.output


def test_files_are_sent_to_the_topics_that_they_are_named_for(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADERBOARD_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    (tmp_path / "a").write_text("hello world\n")
    (tmp_path / "b").write_text("hello kafka\n\n")
    records = ["--records", f"lines={tmp_path}/a", "--records", f"lines={tmp_path}/b"]
    done = CliRunner().invoke(leaderboard, ["load", "--topology", "word-count", *records])
    assert (done.exit_code, done.stdout) == (0, "loaded 3 records\n")
    done = CliRunner().invoke(leaderboard, ["load", "--topology", "word-count", "--scores", str(tmp_path / "a")])
    assert isinstance(done.exception, SetupError)
    assert "is for score-events, which topology word-count does not read: it reads lines" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (["serve"], {"LEADERBOARD_PORT": "x"}, "leaderboard: LEADERBOARD_PORT=x cannot be used: "),
        (["load"], {"LEADERBOARD_PROT": "1"}, "leaderboard: LEADERBOARD_PROT is not a setting: "),
        (["broker", "--data-dir", "/dev/null/x"], {}, "leaderboard: the broker cannot write in /dev/null/x "),
        (["jars"], {"JAVA_HOME": "/nowhere", "XDG_CACHE_HOME": "empty"}, "leaderboard: JAVA_HOME is /nowhere"),
        (
            ["moderate", "hide", "player", str(2**63)],
            {},
            "leaderboard: 'player/9223372036854775808' cannot be hidden: ",
        ),
        (["moderate", "show", "player", "3", "--product", str(-(2**63) - 1)], {}, "leaderboard: 'player/3/product/-9"),
        (["moderate", "hide", "player", "3", "--reason", b"\xff"], {}, "leaderboard: 'player/3' cannot be hidden: "),
        (
            ["moderate", "hide", "player", str(-(2**63) - 1)],
            {},
            "leaderboard: 'player/-9223372036854775809' cannot be ",
        ),
        (
            ["serve"],
            {"LEADERBOARD_CHECKPOINT_URI": "file:///dev/null/x"},
            "leaderboard: LEADERBOARD_CHECKPOINT_URI file:///dev/null/x cannot be used: ",
        ),
    ],
)
def test_what_the_user_must_put_right_is_one_line_and_status_2(
    arguments: list[str | bytes],
    environment: dict[str, str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, str(tmp_path) if name == "XDG_CACHE_HOME" else value)
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=UNHURRIED_S, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_topic_id_as_tools_of_kafka_have_it_is_told_as_entries_have_it() -> None:
    done = CliRunner().invoke(leaderboard, ["moderate", "hide", "score", "AAECAwQFBgcICQoLDA0ODw/0/7"])
    assert isinstance(done.exception, SetupError)
    assert "write the topic id as 00010203-0405-0607-0809-0a0b0c0d0e0f" in str(done.exception)


@pytest.mark.parametrize("entry", ["!" * 22 + "/0/7", "\u00e9" * 22 + "/0/7", "an-id/0/x"])
def test_what_is_no_topic_id_names_no_score(entry: str) -> None:
    done = CliRunner().invoke(leaderboard, ["moderate", "hide", "score", entry])
    assert isinstance(done.exception, SetupError)
    assert "names no score: write <topic id>/<partition>/<offset>, as `entry`" in str(done.exception)


def test_a_read_of_what_is_hidden_that_stands_still_ends(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def with_one_more(kafka: KafkaConnection, topic: str, partitions: int) -> TopicOffsets:
        offsets = await topic_offsets(kafka, topic, partitions)
        return offsets._replace(end={at: end + 1 for at, end in offsets.end.items()})

    monkeypatch.setenv("LEADERBOARD_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    for command in (["show", "player", "-3"], ["list"]):
        assert CliRunner().invoke(leaderboard, ["moderate", *command]).exit_code == 0
    monkeypatch.setattr("app.moderation.topic_offsets", with_one_more)
    monkeypatch.setattr("app.moderation._SILENT_S", 0.5)
    assert isinstance(CliRunner().invoke(leaderboard, ["moderate", "list"]).exception, BrokerUnavailable)


@pytest.mark.parametrize("how", ["hide", "show"])
def test_an_option_that_there_is_not_is_no_player(how: str) -> None:
    done = CliRunner().invoke(leaderboard, ["moderate", how, "player", "3", "--prodct", "6"])
    assert done.exit_code == 2
    assert "unexpected extra arguments (--prodct 6)" in done.output


@pytest.mark.parametrize("count", ["0", "-1", "65", "two"])
def test_a_number_of_instances_that_cannot_be_is_refused_at_once(count: str) -> None:
    done = CliRunner().invoke(leaderboard, ["serve", "--instances", count])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith("Error: Invalid value for '--instances': ")


def serve_several(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run two instances that cannot run."""
    return run_command("serve", "--instances", "2", *arguments, **{"HOST": "127.0.0.1", **settings})


@pytest.mark.parametrize("taken", [0, 2], ids=["the one they share", "one of their own"])
def test_a_port_of_several_instances_that_is_taken_is_told_before_anything_is_started(
    taken: int, tmp_path: Path
) -> None:
    port = free_ports(3)
    with socket.create_server(("127.0.0.1", port + taken)):
        done = serve_several(PORT=port, STATE_DIR=tmp_path / "state")
    told = f"leaderboard: cannot listen on 127.0.0.1:{port + taken}: Address already in use: "
    assert (done.returncode, done.stderr[: len(told)], done.stderr.count("\n")) == (2, told, 1)
    assert list(tmp_path.iterdir()) == []


def test_what_no_instance_can_run_with_is_told_once_and_ends_all(tmp_path: Path) -> None:
    settings = {"PORT": free_ports(3), "STATE_DIR": tmp_path, "CHECKPOINT_URI": "file:///dev/null/x"}
    done = serve_several(**settings)
    assert done.returncode == 2
    (said,) = (line for line in done.stderr.splitlines() if " INFO " not in line)
    assert said.startswith("leaderboard: LEADERBOARD_CHECKPOINT_URI file:///dev/null/x cannot be used: ")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--within", value) for value in ("nan", "inf", "-1", "soon")),
        *(("--url", f"http://{rest}") for rest in ("[x", "h:99999", "h:0", "h:x", ":7000", "h h", "h?a=b", "h#a", "")),
        *(("--url", value) for value in ("localhost:7000", "ftp://h:1", "")),
    ],
)
def test_what_verify_could_never_do_is_refused_at_once(option: str, value: str) -> None:
    done = CliRunner().invoke(leaderboard, ["verify", "--url", "http://127.0.0.1:1", option, value])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith(f"Error: Invalid value for '{option}': ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["describe"], ["--help"]])
def test_an_output_that_cannot_be_written_is_one_line_and_status_1(arguments: list[str], unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=UNHURRIED_S,
            check=False,
        )
    line = "leaderboard: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_a_reader_that_goes_away_is_no_error_to_speak_of() -> None:
    command = [*COMMAND, "describe"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(UNHURRIED_S) == 1


def test_an_absent_broker_is_one_line_and_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADERBOARD_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    done = subprocess.run([*COMMAND, "load"], capture_output=True, text=True, timeout=UNHURRIED_S, check=False)
    assert done.returncode == 1
    assert done.stderr == "leaderboard: Kafka at 127.0.0.1:1 does not answer (nothing listens)\n"


def test_a_taken_port_of_the_demo_is_told_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND, "demo", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=UNHURRIED_S, check=False)
    line = f"leaderboard: cannot listen on 127.0.0.1:{port}: Address already in use: choose another --port\n"
    assert (done.returncode, done.stderr, done.stdout) == (2, line, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_broker_runs_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    arguments = ["broker", "--data-dir", str(tmp_path), "--port", str(port)]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"broker at 127.0.0.1:{port}\n"
        process.send_signal(number)
        assert process.wait(UNHURRIED_S) == 0
    assert "shut down completed" in (tmp_path / "broker.log").read_text()


def test_jars_that_are_fetched_while_a_signal_comes_leave_nothing(tmp_path: Path) -> None:
    java, cache, scratch = tmp_path / "java" / "bin" / "java", tmp_path / "cache", tmp_path / "scratch"
    for directory in (java.parent, scratch):
        directory.mkdir(parents=True)
    fetching = tmp_path / "fetching"
    java.write_text(
        f"""#!/bin/sh
        [ "$1" = -version ] && echo 'openjdk version "17.0.1"' && exit
        touch '{fetching}'
        exec sleep 60
        """
    )
    java.chmod(0o755)
    environment = os.environ | {
        "JAVA_HOME": str(tmp_path / "java"),
        "XDG_CACHE_HOME": str(cache),
        "TMPDIR": str(scratch),
    }
    with subprocess.Popen([*COMMAND, "jars"], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(fetching.exists, "the jars are fetched")
            assert list(cache.rglob("*.part")) != []
            process.terminate()
            # What fetches would end by itself after a minute.
            assert process.wait(15) == 1
        finally:
            process.kill()
    assert list(scratch.iterdir()) == []
    assert [each.suffix for each in cache.rglob("*") if each.is_file()] == [".lock"]
    assert list(cache.rglob("*.part")) == []

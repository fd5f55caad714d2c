"""A real broker with TLS and logins: it is served from with the right settings, and the wrong ones are told apart.

What is a secret is looked for in every file that an instance leaves, in what it answers, and in the command lines.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import SetupError
from app.kafka_settings import check_kafka
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.topics import create_missing, inputs_of
from tests.drivers.certificates import Authority, encrypted
from tests.drivers.command import run_command
from tests.drivers.instance import Instance
from tests.drivers.processes import command_lines, descendants, running
from tests.drivers.producer import Inputs
from tests.drivers.secured_kafka import KEY_PASSWORD, LATE_USER, PASSWORD, USER, SecuredKafka, settings_for
from tests.waiting import wait_until
from topology.leaderboard.board import LEADERBOARD

pytestmark = pytest.mark.system

SECRETS = (PASSWORD, "hun{ter}", KEY_PASSWORD, "PRIVATE KEY")
"""With a part of the password that no escaping changes."""
BOARD = [("Isabelle", 4000.0), ("Mitch", 2000.0), ("Elyse", 1000.0)]
BOARD_AFTER_A_SCORE = [("Elyse", 5000.0), *BOARD[:2]]
REFUSED = f"refuses user {LATE_USER}: check LEADERBOARD_KAFKA_SASL_USERNAME"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured") / "kafka") as kafka:
        kafka.add_user(USER)
        done = load(kafka.plain)
        assert done.returncode == 0, done.stderr
        yield kafka


def load(kafka: KafkaConnection) -> subprocess.CompletedProcess[str]:
    return run_command("load", **settings_for(kafka))


def an_instance(directory: Path, kafka: KafkaConnection) -> Instance:
    return Instance(directory, kafka.bootstrap_servers, **settings_for(kafka), LOG_LEVEL="DEBUG")


def board(instance: Instance) -> list[tuple[str, float]]:
    answer = instance.get("/leaderboard/1")
    return [(entry["playerName"], entry["score"]) for entry in answer.json()] if answer.status_code == 200 else []


def end_and_find_no_secret(instance: Instance) -> None:
    """Look at the command lines of it and its JVM, end it, and look into every file that it leaves."""
    commands = [instance.process.args, *command_lines(instance.process.pid)]
    assert not [secret for secret in SECRETS if secret in str(commands)]
    jvm = descendants(instance.process.pid)
    assert instance.terminate() == 0
    wait_until(lambda: not running(jvm), "its JVM has ended, and with it what it writes and deletes")
    files = [path for path in instance.directory.rglob("*") if path.is_file()]
    assert not [(secret, path) for path in files for secret in SECRETS if secret in path.read_text(errors="replace")]


@pytest.mark.parametrize("how", ["scram", "certified"])
def test_an_instance_serves_from_it_in_real_time_and_shows_no_secret(
    secured: SecuredKafka, tmp_path: Path, how: str
) -> None:
    with an_instance(tmp_path, getattr(secured, how)) as instance:
        instance.wait_for_real_time()
        wait_until(lambda: board(instance) in (BOARD, BOARD_AFTER_A_SCORE), "its copies have read the board")
        Inputs(secured.plain).scores([(5000, 1, 1)])
        wait_until(lambda: board(instance) == BOARD_AFTER_A_SCORE, "the new score is shown")
        wait_until(lambda: instance.get("/health/ready").status_code == 200, "it is ready")
        end_and_find_no_secret(instance)


def test_a_user_that_is_refused_is_told_once_and_let_in_as_soon_as_kafka_knows_it(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    with an_instance(tmp_path, replace(secured.scram, sasl_username=LATE_USER)) as instance:
        instance.wait_for_log(REFUSED)
        wait_until(lambda: REFUSED in instance.get("/health/ready").json()["detail"], "readiness says it")
        secured.add_user(LATE_USER)
        wait_until(lambda: instance.get("/health/ready").status_code == 200, "it is ready")
        assert instance.log().count(REFUSED) <= 3, instance.log()
        end_and_find_no_secret(instance)


def test_a_certificate_that_is_not_trusted_is_told(secured: SecuredKafka, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger").certificate
    with an_instance(tmp_path / "instance", replace(secured.plain, ssl_ca_file=stranger)) as instance:
        instance.wait_for_log("has a certificate that is not trusted")
        fix = "set LEADERBOARD_KAFKA_SSL_CA_FILE to that of the CA that signed it"
        wait_until(lambda: fix in instance.get("/health/ready").json()["detail"], f"readiness says to {fix}")
        end_and_find_no_secret(instance)


def test_the_command_line_says_it_in_one_line(secured: SecuredKafka) -> None:
    done = load(replace(secured.plain, sasl_password="hunter3"))  # noqa: S106
    assert done.returncode == 1
    assert done.stderr == (
        f"leaderboard: Kafka at {secured.plain} refuses user {USER}: check LEADERBOARD_KAFKA_SASL_USERNAME,"
        " LEADERBOARD_KAFKA_SASL_PASSWORD and LEADERBOARD_KAFKA_SASL_MECHANISM\n"
    )


async def told(kafka: KafkaConnection) -> str:
    """Return what is said of a connection that does not come about."""
    with pytest.raises(BrokerUnavailable) as caught:
        await create_missing(kafka, inputs_of(LEADERBOARD))
    return str(caught.value).partition(f"Kafka at {kafka} ")[2]


async def test_each_refusal_is_told_from_the_others(secured: SecuredKafka, tmp_path: Path) -> None:
    plain, scram, certified, opened = secured.plain, secured.scram, secured.certified, secured.open.bootstrap_servers
    stranger = Authority(tmp_path / "stranger")
    certificate, key = stranger.sign("client")
    by_name = plain.bootstrap_servers.replace("127.0.0.1", "localhost")
    for kafka, beginning in (
        (replace(plain, sasl_username="nobody"), "refuses user nobody"),
        (replace(plain, sasl_password=""), "refuses user boards"),
        (replace(scram, sasl_password="hunter3"), "refuses user boards"),  # noqa: S106
        (replace(scram, sasl_mechanism="SCRAM-SHA-256"), "does not take SCRAM-SHA-256"),
        (replace(plain, ssl_ca_file=None), "has a certificate that is not trusted"),
        (replace(plain, bootstrap_servers=by_name), "has a certificate for another name (Hostname mismatch"),
        (replace(certified, ssl_cert_file=None, ssl_key_file=None), "ended the TLS handshake"),
        (replace(certified, ssl_cert_file=certificate, ssl_key_file=key), "ended the TLS handshake"),
        (replace(certified, bootstrap_servers=plain.bootstrap_servers), "hangs up"),
        (replace(certified, bootstrap_servers=opened), "hangs up"),
        (replace(plain, bootstrap_servers=opened), "hangs up"),
        (replace(plain, bootstrap_servers=opened, security_protocol="SASL_PLAINTEXT"), "asks for no login there"),
    ):
        said = await told(kafka)
        assert said.startswith(beginning), f"{kafka!r}: {said}"
        assert not any(secret in said for secret in SECRETS)


async def test_a_certificate_is_taken_whether_its_key_is_encrypted_or_not(secured: SecuredKafka) -> None:
    certificate, key = secured.authority.sign("unencrypted")
    unencrypted = replace(secured.certified, ssl_cert_file=certificate, ssl_key_file=key)
    for kafka in (secured.certified, unencrypted):
        check_kafka(kafka)
        assert await topic_ids(kafka, ["no-such-topic"]) == {}


def test_a_key_that_does_not_fit_is_refused_at_the_start(secured: SecuredKafka) -> None:
    _, other_key = secured.authority.sign("other")
    unread = encrypted(other_key, KEY_PASSWORD, "-v2", "aes256")
    for kafka, said in (
        (replace(secured.certified, ssl_key_file=unread), "is encrypted in a way that Java does not read: encrypt it"),
        (replace(secured.certified, ssl_key_file=other_key), "key values mismatch"),
        (replace(secured.certified, ssl_key_password="hunter3"), "cannot be used"),  # noqa: S106
        (replace(secured.certified, ssl_key_password=""), "cannot be used"),
    ):
        with pytest.raises(SetupError, match=f"LEADERBOARD_KAFKA_SSL_KEY_FILE=.*{said}"):
            check_kafka(kafka)

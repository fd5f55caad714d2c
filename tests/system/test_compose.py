"""docker-compose.yml: against the Compose specification, and its settings against the real Kafka and service."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from app.java.guarded_process import GuardedProcess
from app.java.installed import find_java
from app.java.jars import ensure_jars
from app.server.connection import Limits
from app.settings import read_settings
from tests.drivers.image import read_steps
from tests.drivers.ports import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
# `make test-system` installs it there: it brings the specification's schema and reads YAML.
CHECK_JSONSCHEMA = ROOT / "build" / "check-jsonschema" / "bin"
STATE = "/var/lib/leaderboard/state"
CHECKPOINT = "/var/lib/leaderboard/checkpoint"

READ_YAML = "import json, sys; from ruamel.yaml import YAML; json.dump(YAML(typ='safe').load(sys.stdin), sys.stdout)"


@pytest.fixture(scope="module")
def project() -> Any:
    with COMPOSE.open() as file:
        read = subprocess.run(
            [CHECK_JSONSCHEMA / "python", "-c", READ_YAML], stdin=file, capture_output=True, check=True
        )
    return json.loads(read.stdout)


def test_it_is_what_the_compose_specification_says() -> None:
    checked = subprocess.run(
        [CHECK_JSONSCHEMA / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_volume_and_service_that_is_named_exists(project: Any) -> None:
    for name, service in project["services"].items():
        for other in service.get("depends_on", ()):
            assert other in project["services"], f"{name} depends on {other}"
        for volume in service.get("volumes", ()):
            source, colon, _ = volume.partition(":")
            if colon and source.startswith("."):
                assert (ROOT / source).is_dir(), f"{name} mounts {source}"
            elif colon:
                assert source in project["volumes"], f"{name} mounts {source}"


def test_every_image_that_is_not_ours_has_a_version(project: Any) -> None:
    foreign = [service["image"] for service in project["services"].values() if "build" not in service]
    assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in foreign), foreign


def test_a_replica_can_be_there_many_times(project: Any) -> None:
    replica = project["services"]["leaderboard"]
    assert "container_name" not in replica
    assert "ports" not in replica
    assert "hostname" not in replica
    assert f"checkpoint:{CHECKPOINT}" in replica["volumes"]
    assert STATE in replica["volumes"], "the state of each is its own: a volume without a name"


def without_environment(value: str) -> str:
    """Return what a value is where no variable of it is set: Compose puts what stands behind `:-` in its place."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


@pytest.mark.parametrize("service", ["leaderboard", "load"])
def test_another_topology_is_named_from_outside(project: Any, service: str) -> None:
    given = project["services"][service]["environment"]["LEADERBOARD_TOPOLOGY"]
    assert given == "${LEADERBOARD_TOPOLOGY:-leaderboard}"


@pytest.mark.parametrize("service", ["leaderboard", "load"])
def test_the_service_understands_its_settings(project: Any, service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in project["services"][service]["environment"].items():
        monkeypatch.setenv(name, without_environment(value))
    settings = read_settings()
    assert settings.topology == "leaderboard"
    assert settings.bootstrap_servers == "kafka:9092"
    if service == "leaderboard":
        assert settings.checkpoint_uri == f"file://{CHECKPOINT}"
        assert settings.port == 7000


def test_volumes_are_where_the_image_has_directories_of_its_user(project: Any) -> None:
    made = " ".join(step.arguments for step in read_steps(ROOT / "Dockerfile") if step.name == "RUN")
    for name in ("leaderboard", "load"):
        for volume in project["services"][name]["volumes"]:
            assert volume.rpartition(":")[2] in made.split()


def test_the_load_balancer_sends_to_the_service_by_its_name(project: Any) -> None:
    assert project["services"]["nginx"]["ports"] == ["7000:7000"]
    upstream = (ROOT / "deploy" / "nginx" / "upstream.conf").read_text()
    servers = re.findall(r"server (\S+):(\d+) resolve", upstream)
    assert servers == [("leaderboard", "7000")] * 2


def test_the_load_balancer_runs_on_the_configuration_that_is_mounted(project: Any) -> None:
    nginx = project["services"]["nginx"]
    source, target, _ = nginx["volumes"][0].split(":")
    command = nginx["command"]
    main = Path(command[command.index("-c") + 1])
    assert str(main.parent) == target
    assert (ROOT / source / main.name).is_file()


def test_files_that_may_be_open_are_enough_for_every_connection(project: Any) -> None:
    services = project["services"]
    assert services["leaderboard"]["ulimits"]["nofile"] // 2 >= Limits().connections
    main = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text()
    (files,) = re.findall(r"worker_rlimit_nofile (\d+);", main)
    assert services["nginx"]["ulimits"]["nofile"] == int(files)


def test_kafka_starts_with_these_settings(project: Any, tmp_path: Path) -> None:
    outside = free_port()
    properties = _properties(
        project["services"]["kafka"]["environment"],
        {":9092": f":{free_port()}", ":29092": f":{outside}", "localhost:9093": f"localhost:{free_port()}"},
    )
    # Where a container would listen is taken here; what it tells clients outside stays in step with it.
    properties |= {"log.dirs": str(tmp_path / "data")}
    properties["advertised.listeners"] = f"INSIDE://kafka:9092,OUTSIDE://localhost:{outside}"
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    java = [str(find_java().executable), "-Xmx512m", "-cp", ":".join(map(str, ensure_jars().broker))]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "--cluster-id=5L6g3nShT-eMCtK--X86sw", "-c", str(config)],
        check=True,
        capture_output=True,
    )
    log = tmp_path / "kafka.log"
    kafka = GuardedProcess([*java, "kafka.Kafka", str(config)], log)
    try:
        wait_until(lambda: asyncio.run(_answers(f"localhost:{outside}")), f"Kafka answers outside, see {log}")
    finally:
        kafka.stop()


def _properties(environment: Mapping[str, str], moved: Mapping[str, str]) -> dict[str, str]:
    """Return what the image makes of its environment: `KAFKA_LOG_DIRS` is `log.dirs`."""
    found = {}
    for name, value in environment.items():
        for old, new in moved.items():
            value = re.sub(rf"{old}(?!\d)", new, value)  # noqa: PLW2901
        found[name.removeprefix("KAFKA_").lower().replace("_", ".")] = value
    return found


async def _answers(bootstrap_servers: str) -> bool:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        await admin.start()
        return "score-events" not in await admin.list_topics()
    except KafkaError:
        return False
    finally:
        await admin.close()

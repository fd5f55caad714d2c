"""Carries out a Dockerfile without Docker: its steps run as root in a Debian of their own, on overlay file systems.

Only as much of the format as our Dockerfile uses; anything else is an error. Needs root, debootstrap and Linux.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_STEP_S = 900.0
_DEBIAN = "bookworm"
_BASE_PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
_FOR_PACKAGE_CLIENTS = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
"""What a machine needs to reach its registries, and a build gets as arguments."""


@dataclass(frozen=True)
class Step:
    """One instruction of a Dockerfile."""

    name: str
    arguments: str

    def parts(self) -> list[str]:
        """Return the arguments as words, of a JSON list too."""
        return json.loads(self.arguments) if self.arguments.startswith("[") else shlex.split(self.arguments)


def read_steps(path: Path) -> list[Step]:
    """Return the instructions of a Dockerfile, continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    steps = "\n".join(lines).replace("\\\n", "").splitlines()
    return [Step(*step.split(maxsplit=1)) for step in steps]


@dataclass
class Image:
    """What a stage has come to.

    Attributes:
        layers: directories of the overlay, the lowest first; the last one is written to.
    """

    layers: list[Path]
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin"})
    user: str = "root"
    workdir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: str = ""
    stop_signal: str = ""
    volumes: list[str] = field(default_factory=list)

    def path(self, inside: str) -> Path:
        """Return where the last layer has a path of the image, absolute or below the working directory."""
        return self.layers[-1] / str(PurePosixPath(self.workdir, inside)).lstrip("/")

    def argv(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
        """Return the command line that runs a command in the image, in a process namespace of its own."""
        *below, top = self.layers
        root, work = (top.with_name(f"{top.name}-{use}") for use in ("root", "work"))
        for directory in (root, work):
            directory.mkdir(exist_ok=True)
        lower = ":".join(str(layer) for layer in reversed(below))
        mounts = [
            f"mount -t overlay overlay -o lowerdir={lower},upperdir={top},workdir={work} {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            *(f"touch {root}{file} && mount --bind {file} {root}{file}" for file in ("/etc/resolv.conf", "/etc/hosts")),
        ]
        given = self.env | {"HOME": self._home()} | dict(env or {})
        assigned = [f"{name}={value}" for name, value in given.items()]
        inside = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(['env', '-i', *assigned, *command])}"
        enter = shlex.join(["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups", "sh", "-c"])
        script = " && ".join([*mounts, f"exec chroot {root} {enter} {shlex.quote(inside)}"])
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "sh", "-c", script]

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run a command in the image and return what it printed; one that fails is an error with its output."""
        done = subprocess.run(
            self.argv(command, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_STEP_S,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-5000:]}"
        return done.stdout

    def _home(self) -> str:
        return "/root" if self.user == "root" else f"/home/{self.user}"


def debian(directory: Path) -> Path:
    """Return a directory with a small Debian that has Python, as the base image does; made on first use."""
    assert os.geteuid() == 0, "a Dockerfile can only be carried out as root"
    base = directory / _DEBIAN
    if not base.exists():
        part = directory / f"{_DEBIAN}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={_BASE_PACKAGES}", _DEBIAN, str(part)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        # As in slim images, where packages that link their manual pages have failed to install.
        (part / "etc/dpkg/dpkg.cfg.d/docker").write_text("path-exclude /usr/share/man/*\n")
        shutil.rmtree(part / "usr/share/man")
        part.rename(base)
    return base


def build(dockerfile: Path, base: Path, directory: Path) -> Image:
    """Carry out a Dockerfile and return the image of its last stage.

    Args:
        dockerfile: in the directory that is copied from.
        base: stands for every base image.
        directory: where the stages are kept.
    """
    allowed = _not_ignored(dockerfile.parent)
    registries = {name: os.environ[name] for name in _FOR_PACKAGE_CLIENTS if name in os.environ}
    stages: dict[str, Image] = {}
    image = Image([base])
    for step in read_steps(dockerfile):
        parts = step.parts() if step.name != "RUN" else []
        match step.name:
            case "FROM":
                name = parts[2] if parts[1:2] == ["AS"] else "last"
                image = stages[name] = Image([base, directory / name])
                _trust_what_the_machine_trusts(image)
            case "RUN":
                image.run(["sh", "-c", step.arguments], registries)
            case "COPY":
                origin = stages[parts.pop(0).removeprefix("--from=")] if parts[0].startswith("--from=") else None
                *sources, target = parts
                _copy(image, origin, dockerfile.parent, sources, target, allowed)
            case "ENV":
                for assignment in parts:
                    variable, _, value = assignment.partition("=")
                    image.env[variable] = value.replace("$PATH", image.env["PATH"])
            case "USER":
                image.user = parts[0]
            case "WORKDIR":
                image.workdir = parts[0]
                image.run(["true"]) if image.user != "root" else image.path(".").mkdir(parents=True, exist_ok=True)
            case "VOLUME":
                image.volumes += parts
            case "ENTRYPOINT":
                image.entrypoint = parts
            case "CMD":
                image.command = parts
            case "HEALTHCHECK":
                image.healthcheck = step.arguments.partition(" CMD ")[2].strip()
            case "STOPSIGNAL":
                image.stop_signal = parts[0]
            case "EXPOSE":
                pass
            case _:
                raise AssertionError(f"{step.name} is not known here")
    return image


def _trust_what_the_machine_trusts(image: Image) -> None:
    """Some machines reach their registries through a proxy with a certificate authority of its own."""
    image.layers[-1].mkdir(parents=True)
    own = Path("/usr/local/share/ca-certificates")
    if own.is_dir():
        shutil.copytree(own, image.path(str(own)))
        image.run(["update-ca-certificates"])


def _not_ignored(context: Path) -> set[str]:
    """Return what a .dockerignore of the form "everything but these" lets through."""
    lines = [line for line in (context / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    return {line[1:] for line in lines if line.startswith("!")}


def _copy(
    image: Image, origin: Image | None, context: Path, sources: Iterable[str], target: str, allowed: set[str]
) -> None:
    for source in sources:
        assert origin is not None or source in allowed, f"{source} is left out by .dockerignore"
        found = origin.path(source) if origin is not None else context / source
        assert found.exists(), f"{source} is not there"
        into = image.path(target)
        if found.is_dir():
            # The contents of a directory, not the directory.
            shutil.copytree(
                found, into, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*_cache")
            )
        elif target.endswith(("/", ".")):
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, into)
        else:
            shutil.copy2(found, into)

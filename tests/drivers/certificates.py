"""A certificate authority for one test, made with `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

_NEW_KEY = ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


class Authority:
    """Signs certificates that are good for a day; every file it makes is PEM.

    Args:
        directory: where its files go; it is created.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        _openssl(*_NEW_KEY, "-out", self._key)
        _openssl("req", "-x509", "-days", "1", "-subj", "/CN=Test CA", "-key", self._key, "-out", self.certificate)

    def sign(self, name: str, alternative_names: str = "") -> tuple[Path, Path]:
        """Make a key, and sign a certificate for it.

        Args:
            name: its common name, and that of the files.
            alternative_names: what it is valid for, as in `DNS:localhost,IP:127.0.0.1`.

        Returns:
            The files of the certificate and of its key.
        """
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE"]
        if alternative_names:
            extensions += ["-addext", f"subjectAltName={alternative_names}"]
        _openssl(*_NEW_KEY, "-out", key)
        signed = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-out", str(certificate)]
        _openssl("req", "-x509", "-days", "1", "-subj", f"/CN={name}", *extensions, "-key", key, *signed)
        return certificate, key


def encrypted(key: Path, password: str, *how: str) -> Path:
    """Return a copy of a key that is encrypted, as `openssl pkcs8` is told."""
    path = key.with_suffix(".encrypted.key")
    _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}", *how, "-out", path)
    return path


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr

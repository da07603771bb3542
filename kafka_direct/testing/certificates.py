"""Certificates for tests: an authority and what it signs, in the forms that clients read.

    certificates = Certificates(folder)
    certificates.make_server("expired", is_expired=True)
    certificates.make_client("alice").pem

They are made by `keytool`, which comes with Java. All keys are of the elliptic curve P-256.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .keytool import Keytool
from .security import STORE_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

HOSTS = ("localhost", "127.0.0.1")
AUTHORITY = "ca"
PASSWORD = ("-storepass", STORE_PASSWORD)
NEW_KEY = ("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *PASSWORD, "-keypass", STORE_PASSWORD)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key. All stores, and the encrypted key, have the password STORE_PASSWORD."""

    folder: Path
    name: str

    @property
    def pem(self) -> Path:
        """The certificate and its authority's."""
        return self.folder / f"{self.name}.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    @property
    def encrypted_key(self) -> Path:
        return self.folder / f"{self.name}.encrypted.key"

    @property
    def keystore_pem(self) -> Path:
        """The encrypted key and the certificates in one file, as Java wants a keystore in PEM."""
        return self.folder / f"{self.name}.keystore.pem"

    @property
    def p12(self) -> Path:
        return self.folder / f"{self.name}.p12"

    @property
    def jks(self) -> Path:
        return self.folder / f"{self.name}.jks"


class Certificates:
    """An authority with a key of its own, a server's certificate, and one of each of `users`: CN is the user's name.

    `folder` is created. Two of them do not trust each other.

    Raises:
        KafkaStartError: there is no Java that has a `keytool`.
    """

    def __init__(self, folder: Path, users: Collection[str] = ()) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        with Keytool() as keytool:
            self._make_authority(keytool)
            self.server = self._make(keytool, "server", "localhost", HOSTS)
            self.users = {user: self._make(keytool, user, user) for user in users}

    @property
    def ca_pem(self) -> Path:
        """The authority's certificate."""
        return self._folder / "ca.pem"

    @property
    def truststore_p12(self) -> Path:
        return self._folder / "truststore.p12"

    @property
    def truststore_jks(self) -> Path:
        return self._folder / "truststore.jks"

    def make_server(self, name: str, *, hosts: Collection[str] = HOSTS, is_expired: bool = False) -> Certificate:
        """Make a server's certificate, by default one that is good; `name` is for its files."""
        with Keytool() as keytool:
            return self._make(keytool, name, next(iter(hosts)), hosts, is_expired=is_expired)

    def make_client(self, user: str, *, name: str = "", is_expired: bool = False) -> Certificate:
        """Make a user's certificate; `name` is for its files, by default the user's."""
        with Keytool() as keytool:
            return self._make(keytool, name or user, user, is_expired=is_expired)

    @property
    def _signer(self) -> Path:
        return self._folder / "authority.p12"

    def _make_authority(self, keytool: Keytool) -> None:
        keytool.run(*NEW_KEY, "-alias", AUTHORITY, "-dname", "CN=Test CA", "-ext", "bc:c", *_to(self._signer))
        keytool.run(*_export(AUTHORITY), "-file", self.ca_pem, "-keystore", self._signer)
        for store, kind in ((self.truststore_p12, "PKCS12"), (self.truststore_jks, "JKS")):
            trust = ("-importcert", "-noprompt", "-alias", AUTHORITY, "-file", self.ca_pem)
            keytool.run(*trust, *_to(store, kind), *PASSWORD)

    def _make(
        self, keytool: Keytool, name: str, owner: str, hosts: Collection[str] = (), *, is_expired: bool = False
    ) -> Certificate:
        """Make a key and its certificate in the authority's store, where the signer is, and copy it from there."""
        made = Certificate(self._folder, name)
        names = ("-ext", "SAN=" + ",".join(_san(host) for host in hosts)) if hosts else ()
        time = ("-startdate", "-2d", "-validity", "1") if is_expired else ("-validity", "30")
        signed = ("-alias", name, "-dname", f"CN={owner}", "-signer", AUTHORITY, "-signerkeypass", STORE_PASSWORD)
        keytool.run(*NEW_KEY, *signed, *names, *time, *_to(self._signer))
        for store, kind in ((made.p12, "PKCS12"), (made.jks, "JKS")):
            source = ("-srckeystore", self._signer, "-srcstorepass", STORE_PASSWORD, "-srcalias", name)
            target = ("-destkeystore", store, "-deststoretype", kind, "-deststorepass", STORE_PASSWORD)
            keytool.run("-importkeystore", *source, *target)
        keytool.run(*_export(name), "-file", made.pem, "-keystore", self._signer)
        made.pem.write_text(made.pem.read_text() + self.ca_pem.read_text())
        key, encrypted = keytool.private_key(made.p12, name)
        made.key.write_text(key)
        made.encrypted_key.write_text(encrypted)
        made.keystore_pem.write_text(encrypted + made.pem.read_text())
        return made


def _to(store: Path, kind: str = "PKCS12") -> tuple[str | Path, ...]:
    return "-keystore", store, "-storetype", kind


def _export(alias: str) -> tuple[str, ...]:
    return "-exportcert", "-rfc", "-alias", alias, *PASSWORD


def _san(host: str) -> str:
    """A host as `keytool` wants it.

    >>> _san("127.0.0.1"), _san("localhost")
    ('IP:127.0.0.1', 'DNS:localhost')
    """
    return f"IP:{host}" if host.replace(".", "").isdigit() else f"DNS:{host}"

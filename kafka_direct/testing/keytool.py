"""Java's `keytool`, run many times in one JVM: each run of the command itself takes half a second.

So certificates need nothing that a user does not have: Java and PySpark's py4j. All of a cluster take a second.
"""

from __future__ import annotations

from base64 import encodebytes
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JError

from .error import KafkaStartError
from .gateway import java_gateway
from .security import STORE_PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # A tenth of the default: these keys guard nothing, and ten thousand rounds a key cost a second or two in all.
    *(f"-Dkeystore.pkcs12.{what}IterationCount=1000" for what in ("certPbe", "keyPbe", "mac")),
    "--add-exports=java.base/sun.security.tools.keytool=ALL-UNNAMED",
)
KEY_CIPHER = "PBEWithSHA1AndDESede"  # old, and the one that Java 17 and OpenSSL 3 both read in an encrypted PEM key
ENCRYPT = 1  # javax.crypto.Cipher.ENCRYPT_MODE


class Keytool:
    """A context manager.

    Raises:
        KafkaStartError: no Java, or `keytool` refused its arguments; the text has its output.
    """

    def __enter__(self) -> Self:
        self._output: deque[bytes] = deque(maxlen=20)
        self._undo = ExitStack()
        self._java = self._undo.enter_context(java_gateway(*JAVA_OPTIONS, output=self._output))
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def run(self, *arguments: str | Path) -> None:
        """Do what the command `keytool` does with these arguments."""
        strings = self._java.new_array(self._java.jvm.java.lang.String, len(arguments))
        for place, argument in enumerate(arguments):
            strings[place] = str(argument)
        try:
            self._java.jvm.sun.security.tools.keytool.Main.main(strings)
        except Py4JError as error:  # it ends its JVM when it fails
            output = " ".join(str(line).strip() for line in self._output)
            raise KafkaStartError(f"keytool {arguments[0]} failed: {output or error}") from error

    def private_key(self, store: Path, alias: str) -> tuple[str, str]:
        """Return a key of a PKCS12 store in PEM, as it is and encrypted; `keytool` itself shows no private key."""
        java, password = self._java.jvm.java, self._password()
        stream = java.io.FileInputStream(str(store))
        try:
            keys = java.security.KeyStore.getInstance("PKCS12")
            keys.load(stream, password)
        finally:
            stream.close()
        # The key's own class is hidden from reflection; a specification of it is not.
        form = java.lang.Class.forName("java.security.spec.PKCS8EncodedKeySpec")
        key = bytes(
            java.security.KeyFactory.getInstance("EC").getKeySpec(keys.getKey(alias, password), form).getEncoded()
        )
        return pem("PRIVATE KEY", key), pem("ENCRYPTED PRIVATE KEY", self._encrypted(key))

    def _encrypted(self, key: bytes) -> bytes:
        crypto = self._java.jvm.javax.crypto
        secret = crypto.SecretKeyFactory.getInstance(KEY_CIPHER).generateSecret(
            crypto.spec.PBEKeySpec(self._password())
        )
        cipher = crypto.Cipher.getInstance(KEY_CIPHER)
        cipher.init(ENCRYPT, secret)
        return bytes(crypto.EncryptedPrivateKeyInfo(cipher.getParameters(), cipher.doFinal(key)).getEncoded())

    def _password(self) -> Any:
        characters = self._java.new_array(self._java.jvm.char, len(STORE_PASSWORD))
        for place, character in enumerate(STORE_PASSWORD):
            characters[place] = character
        return characters


def pem(label: str, content: bytes) -> str:
    """Return the PEM form of bytes in DER.

    >>> print(pem("PRIVATE KEY", b"abc"), end="")
    -----BEGIN PRIVATE KEY-----
    YWJj
    -----END PRIVATE KEY-----
    """
    return f"-----BEGIN {label}-----\n{encodebytes(content).decode()}-----END {label}-----\n"

"""Amazon MSK with IAM, as Java's IAMClientCallbackHandler logs in: a signed URL as the token."""

from __future__ import annotations

import os
from typing import Any

from kafka_direct.errors import ConfigError

from .config import parse_config

_KNOWN = ("region", "awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def token(config: str | None) -> tuple[str, float]:
    """A new token, and when it expires. `config` has Java's names; each call asks for credentials anew.

    Without a profile or a role AWS's default credentials are taken: environment, files, container or host.

    Raises:
        ConfigError: the package that signs is not installed, or nothing tells the region.
    """
    wanted = parse_config(config, _KNOWN)
    region = wanted.get("region") or next(filter(None, map(os.environ.get, _REGION_VARIABLES)), None)
    if region is None:
        raise ConfigError(
            "Amazon MSK's region is not in the brokers' names; set AWS_REGION, or sasl.oauthbearer.config to "
            "'region=...'."
        )
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError(
            "Amazon MSK with IAM needs the package aws-msk-iam-sasl-signer-python: pip install 'kafka-direct[msk]' on "
            "the driver and on every executor."
        ) from None
    if "awsProfileName" in wanted:  # as in Java, before a role
        signed, expires_ms = Signer.generate_auth_token_from_profile(region, wanted["awsProfileName"])
    elif "awsRoleArn" in wanted:
        provider = _role(wanted, region)
        signed, expires_ms = Signer.generate_auth_token_from_credentials_provider(region, provider)
    else:
        signed, expires_ms = Signer.generate_auth_token(region)
    return signed, expires_ms / 1000  # the signer's milliseconds, and confluent-kafka's seconds


def _role(wanted: dict[str, str], region: str) -> Any:
    """What assumes the role. The signer's own way has no external id, and no region where none is configured."""
    import botocore.session  # noqa: PLC0415  comes with the signer
    from botocore.credentials import CredentialProvider, Credentials  # noqa: PLC0415

    class Role(CredentialProvider):
        METHOD = "assume-role"

        def load(self) -> Any:
            sts = botocore.session.Session().create_client("sts", region_name=wanted.get("awsStsRegion", region))
            external = {"ExternalId": wanted["awsRoleExternalId"]} if "awsRoleExternalId" in wanted else {}
            name = wanted.get("awsRoleSessionName", "kafka-direct")
            assumed = sts.assume_role(RoleArn=wanted["awsRoleArn"], RoleSessionName=name, **external)["Credentials"]
            return Credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])

    return Role()

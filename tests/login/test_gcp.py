"""The token for Google's managed Kafka: an access token of google-auth in Google's envelope."""

import json
from base64 import urlsafe_b64decode
from datetime import UTC, datetime

import google.auth
from google.oauth2.credentials import Credentials

from kafka_direct.login.gcp import token


class Account(Credentials):
    """Default credentials as a service account has them; what they ask Google for is not asked here."""

    service_account_email = "reader@shop.iam.gserviceaccount.com"

    def refresh(self, _request):
        self.token = "ya29.access"
        self.expiry = datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # google-auth's are naive, in UTC


def test_the_access_token_comes_in_an_envelope(monkeypatch):
    """Three parts without padding; the end is that of the access token."""
    asked = {}
    monkeypatch.setattr(google.auth, "default", lambda **given: (asked.update(given), (Account(None), "shop"))[1])

    text, expires = token(None)

    header, claims, access = (urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert access == b"ya29.access"
    found = json.loads(claims)
    assert (found["iss"], found["sub"], found["exp"]) == ("Google", Account.service_account_email, expires)
    assert expires == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    assert asked == {"scopes": ["https://www.googleapis.com/auth/cloud-platform"]}

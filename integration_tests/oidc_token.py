"""A user's own function for `oauth_cb`, named as text: it asks an OIDC server. Its text is the issuer."""

import json
import time
from urllib.parse import urlencode
from urllib.request import urlopen

FORM = {"grant_type": "client_credentials", "client_id": "alice", "client_secret": "alice-secret", "scope": "kafka"}


def fetch(issuer):
    with urlopen(f"{issuer.partition('?')[0]}/token", data=urlencode(FORM).encode(), timeout=30) as answer:
        found = json.load(answer)
    return found["access_token"], time.time() + found["expires_in"]

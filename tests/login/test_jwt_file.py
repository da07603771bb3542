"""A token from a file."""

import json
from base64 import urlsafe_b64encode

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.login.jwt_file import token


def jwt(claims):
    return f"e30.{urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sign"


def test_the_file_is_read_each_time(tmp_path):
    """Another program replaces it before it expires."""
    path = tmp_path / "token"
    for end in (1000, 2000):
        path.write_text(jwt({"exp": end, "sub": "me"}) + "\n")

        assert token(f"file={path}") == (jwt({"exp": end, "sub": "me"}), float(end))


@pytest.mark.parametrize(
    "text", ["", "hunter2", "a.b.c", "e30.e30.x", jwt({"sub": "hunter2"}), jwt([1]), jwt({"exp": None})]
)
def test_what_is_no_token_is_told(tmp_path, text):
    """By the file's name, without its content."""
    path = tmp_path / "token"
    path.write_text(text)

    with pytest.raises(ConfigError, match="holds no JSON Web Token") as refused:
        token(f"file={path}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "said"), [("", "names no file"), ("file=/no/such", "No such file"), ("x", "such as")]
)
def test_a_missing_file_is_told(config, said):
    """And a missing path."""
    with pytest.raises(ConfigError, match=said):
        token(config)

"""What users configure: client parameters, secrets, subscriptions."""

from .client_params import ClientParams, refuse_literal_secrets
from .subscription import Subscription

__all__ = ["ClientParams", "Subscription", "refuse_literal_secrets"]

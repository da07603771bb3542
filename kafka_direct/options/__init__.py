"""What users configure: client parameters, secrets, subscriptions."""

from .client_params import ClientParams, refuse_literal_secrets
from .source_options import SourceOptions
from .subscription import Subscription

__all__ = ["ClientParams", "SourceOptions", "Subscription", "refuse_literal_secrets"]

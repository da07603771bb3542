"""What users configure: client parameters, secrets, subscriptions."""

from .client_params import ClientParams, refuse_literal_secrets
from .sink_options import SinkOptions
from .source_options import SourceOptions
from .subscription import Subscription

__all__ = ["ClientParams", "SinkOptions", "SourceOptions", "Subscription", "refuse_literal_secrets"]

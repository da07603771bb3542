"""The batch cycle that DStreams and queries share, behind a port of the brokers."""

from .brokers import Brokers
from .engine import Engine, StartRule
from .group import CommitCallback, GroupFollower
from .pace import Pace
from .patience import Patience
from .start import Uncommitted, resolve_positions

__all__ = [
    "Brokers",
    "CommitCallback",
    "Engine",
    "GroupFollower",
    "Pace",
    "Patience",
    "StartRule",
    "Uncommitted",
    "resolve_positions",
]

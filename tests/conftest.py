"""How the unit tests run."""

import os

from hypothesis import Phase, settings

# The unit tests of rate/ and offsets/ together stay under ten seconds; --hypothesis-profile=default looks longer.
settings.register_profile("quick", max_examples=50, deadline=None)
# For scripts/mutants.py, which asks whether a test fails, not how: no randomness, and no search for a smaller example.
settings.register_profile(
    "mutants", max_examples=50, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
# CI asks whether a change broke something, so it gets the same examples each time. `make laws` looks for new ones.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("laws", max_examples=2000, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "quick")

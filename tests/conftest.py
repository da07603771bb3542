"""How the unit tests run."""

from hypothesis import Phase, settings

# The unit tests of rate/ and offsets/ together stay under ten seconds; --hypothesis-profile=default looks longer.
settings.register_profile("quick", max_examples=50, deadline=None)
# For scripts/mutants.py, which asks whether a test fails, not how: no randomness, and no search for a smaller example.
settings.register_profile(
    "mutants", max_examples=50, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("quick")

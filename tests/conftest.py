"""How the unit tests run."""

from hypothesis import settings

# The unit tests of rate/ and offsets/ together stay under ten seconds; --hypothesis-profile=default looks longer.
settings.register_profile("quick", max_examples=50, deadline=None)
settings.load_profile("quick")

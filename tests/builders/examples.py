"""How many examples Hypothesis tries.

They are the same in every run, so `make test` tries a part of them and `make test-full` all. `--hypothesis-profile=explore` tries new ones.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

CI = "ci"
FULL = "full"
EXPLORE = "explore"

_DEFAULT = 100
_PART = 3  # `make test` tries one in so many
_LEAST = 10


def register_profiles() -> None:
    """Make the profiles known; all examples are tried unless another profile is chosen."""
    common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(FULL, common, derandomize=True, max_examples=_DEFAULT)
    settings.register_profile(EXPLORE, common, derandomize=False, max_examples=_DEFAULT)
    settings.register_profile(CI, common, derandomize=True, max_examples=_part(_DEFAULT))
    settings.load_profile(FULL)


def examples(number: int, *, soak: int | None = None) -> int:
    """Return how many examples a test tries, of so many in a full run. `soak`: how many new ones it tries in a soak, if that is another number."""
    profile = settings.get_current_profile_name()
    if profile == EXPLORE and soak is not None:
        return soak
    return _part(number) if profile == CI else number


def _part(number: int) -> int:
    return min(number, max(_LEAST, number // _PART))

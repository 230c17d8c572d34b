from __future__ import annotations

from hypothesis import settings

# The machine may be busy with something else: how long one example takes says nothing. Their number stays.
settings.register_profile("core", deadline=None)
settings.load_profile("core")

"""The types of what flows through a model."""

from typing import Any

Tensor = Any  # keras has no common tensor type over its backends
Batch = dict[str, Tensor]  # by the name of the feature
Sums = dict[str, tuple[Tensor, Tensor]]  # by metric: a sum, and its weight

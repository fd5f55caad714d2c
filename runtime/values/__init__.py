"""What a store keeps of each key: values that come with the runtime, and what one's own are made of."""

from __future__ import annotations

from runtime.values.accumulators import Average, Count, Sum
from runtime.values.base import Value, Values
from runtime.values.fields import Fields
from runtime.values.lattices import Latest, Max, Min, Recent

__all__ = ["Average", "Count", "Fields", "Latest", "Max", "Min", "Recent", "Sum", "Value", "Values"]

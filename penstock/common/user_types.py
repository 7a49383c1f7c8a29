"""Names for what a program puts into the engine: objects of any type, which the engine hands on and does not look into.

Each name stands for one concept. All of them are `Any`, because types of users' classes are not known here; a value that the engine
itself looks into has its own type, and one that it only passes on or checks is an `object`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: An element of a stream, or a field of one: what sources emit, functions receive and return, and sinks write.
Record: TypeAlias = Any
#: What a key selector returns for a record. It must be hashable and the same in every process.
Key: TypeAlias = Any
#: What an aggregate function keeps between records: its author chooses the type.
Accumulator: TypeAlias = Any
#: What state holds: the value of a key, an element of a list, an entry of a map; what a source or a sink has saved and gets back.
StateValue: TypeAlias = Any
#: Where a reader stands in a split: each source has a type of its own, whose values are stored in checkpoints.
Position: TypeAlias = Any

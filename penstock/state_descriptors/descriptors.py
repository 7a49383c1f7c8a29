"""State descriptors: the name, the kind and the type of a state."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation, check_type
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.state_descriptors.ttl import StateTtlConfig


class StateDescriptor:
    """Base of all state descriptors.

    `kind` selects the state object; `ttl_config` is None unless the state expires.
    """

    kind: ClassVar[str] = ""

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"state name must be a str, got {name!r}")
        if not name:
            raise ArgumentError("state name is empty", hint="name it after what it holds")
        self.name = name
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the state expire."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise ArgumentTypeError(
                f"ttl_config must be a StateTtlConfig, got {ttl_config!r}",
                hint="use StateTtlConfig.new_builder(Duration.of_hours(1)).build()",
            )
        self.ttl_config = ttl_config if ttl_config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}', {self.type_info!r})"


def _optional_type(value: object, what: str) -> TypeInformation | None:
    return None if value is None else check_type(value, what)


class ValueStateDescriptor(StateDescriptor):
    """Describes a single value per key."""

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, _optional_type(value_type_info, "value_type_info"))


class ListStateDescriptor(StateDescriptor):
    """Describes a list per key."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        self.elem_type_info = _optional_type(elem_type_info, "elem_type_info")
        super().__init__(name, elem_type_info and ListTypeInfo(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a dictionary per key."""

    kind = "map"

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        self.key_type_info = _optional_type(key_type_info, "key_type_info")
        self.value_type_info = _optional_type(value_type_info, "value_type_info")
        type_info = None
        if key_type_info is not None and value_type_info is not None:
            type_info = MapTypeInfo(key_type_info, value_type_info)
        super().__init__(name, type_info)


class ReducingStateDescriptor(StateDescriptor):
    """Describes one value per key that is folded by a ReduceFunction or a plain function of two values."""

    kind = "reducing"

    def __init__(
        self, name: str, reduce_function: Any, type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, _optional_type(type_info, "type_info"))
        if not callable(getattr(reduce_function, "reduce", None)) and not callable(reduce_function):
            raise ArgumentTypeError(
                f"reduce_function must be a ReduceFunction or a function, got {reduce_function!r}"
            )
        self.reduce_function = reduce_function

    def get_reduce_function(self) -> object:
        """Return the function that folds values."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes one accumulator per key of an AggregateFunction."""

    kind = "aggregating"

    def __init__(
        self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, _optional_type(state_type_info, "state_type_info"))
        for method in ("create_accumulator", "add", "get_result"):
            if not callable(getattr(agg_function, method, None)):
                raise ArgumentTypeError(
                    f"agg_function must be an AggregateFunction, got {agg_function!r}",
                    detail=f"it has no method {method}",
                )
        self.agg_function = agg_function

    def get_agg_function(self) -> object:
        """Return the function behind the accumulator."""
        return self.agg_function


__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueStateDescriptor",
]

"""coGroup: groups the elements of two streams by key and window, as two lists.

The stages of `stream.co_group(other).where(key).equal_to(key).window(assigner).apply(function)`; `join` has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import TypeInformation
from penstock.datastream import _typed
from penstock.datastream._checks import check_function
from penstock.datastream._window_settings import WindowSettings
from penstock.datastream.basic_functions import KeySelector
from penstock.datastream.join_functions import CoGroupFunction
from penstock.datastream.stream import DataStream, check_key_selector
from penstock.datastream.window import GlobalWindows, WindowAssigner
from penstock.datastream.window_functions import WindowFunctionAdapter
from penstock.errors import InvalidProgramError
from penstock.errors.argument_checks import check_instance
from penstock.graph.operator_specs import CoGroupWindowSpec, OperatorSpec, WindowSpec
from penstock.graph.partitioning import Hash
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
)

Key = Callable[[Any], Any] | KeySelector

_STEPS = ("where", "equal_to", "window", "trigger", "evictor", "allowed_lateness", "apply")


class IncompleteJoinError(InvalidProgramError, AttributeError):
    """A step of a join was called before the steps that it needs."""


class _Stage:
    """An incomplete join or coGroup; errors say which step comes next."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    _next = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _STEPS:
                raise IncompleteJoinError(
                    f"{name}() of a {self._pair.method} comes after {self._next}()",
                    hint=f"write stream.{self._pair.method}(other).where(key).equal_to(key).window(assigner)"
                    ".apply(function)",
                )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class _Pair:
    """The two streams, and the settings of the join so far."""

    def __init__(
        self, method: str, first: DataStream, second: DataStream, windowed: type[WindowedPair]
    ) -> None:
        check_instance(second, DataStream, f"the other stream of {method}()")
        if second.get_execution_environment() is not first.get_execution_environment():
            raise InvalidProgramError(
                f"the streams of a {method} belong to different environments",
                hint="read both sources from one StreamExecutionEnvironment",
            )
        self.method = method
        self.streams = (first, second)
        self.windowed = windowed
        self.keys: list[Any] = []
        self.key_types: list[Any] = []

    def add_key(self, key_selector: Key, key_type: TypeInformation | None) -> None:
        check_key_selector(key_selector)
        self.keys.append(key_selector)
        self.key_types.append(_typed.check_type(key_type, "key_type"))
        first = self.key_types[0]
        if None not in self.key_types and first != self.key_types[-1]:
            raise InvalidProgramError(
                f"the keys of a {self.method} are of different types",
                detail=f"where() has {first}, equal_to() has {self.key_types[-1]}",
                hint="return the same type from both key selectors",
            )

    def fork(self) -> _Pair:
        """Return a copy, so that each stage can be used more than once."""
        copy = _Pair(self.method, *self.streams, self.windowed)
        copy.keys, copy.key_types = list(self.keys), list(self.key_types)
        return copy


class CoGroupedStreams(_Stage):
    """Two streams to be grouped together: continue with `where`."""

    _next = "where"

    def __init__(self, first: DataStream, second: DataStream) -> None:
        super().__init__(_Pair("co_group", first, second, CoGroupedWindow))

    def where(self, key_selector: Key, key_type: TypeInformation | None = None) -> Where:
        """Set the key of the first stream's elements."""
        return Where(self._pair, key_selector, key_type)


class Where(_Stage):
    """A join or coGroup with the key of its first stream: continue with `equal_to`."""

    _next = "equal_to"

    def __init__(self, pair: _Pair, key_selector: Key, key_type: TypeInformation | None) -> None:
        super().__init__(pair.fork())
        self._pair.add_key(key_selector, key_type)

    def equal_to(self, key_selector: Key, key_type: TypeInformation | None = None) -> EqualTo:
        """Set the key of the second stream's elements."""
        return EqualTo(self._pair, key_selector, key_type)


class EqualTo(_Stage):
    """A join or coGroup with both keys: continue with `window`."""

    _next = "window"

    def __init__(self, pair: _Pair, key_selector: Key, key_type: TypeInformation | None) -> None:
        super().__init__(pair.fork())
        self._pair.add_key(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> Any:
        """Set the windows in which elements with equal keys are joined."""
        return self._pair.windowed(self._pair, window_assigner)


class WindowedPair(WindowSettings):
    """A join or coGroup with keys and windows; `apply` completes it."""

    def __init__(self, pair: _Pair, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(window_assigner, *pair.streams)
        self._pair = pair

    def _build(
        self, name: str, function: WindowFunctionAdapter, output_type: TypeInformation | None
    ) -> DataStream:
        assigner = self._assigner
        if isinstance(assigner, GlobalWindows) and self._trigger is None:
            raise InvalidProgramError(
                f"a {self._pair.method} in global windows needs a trigger",
                detail="the global window never ends, so it never fires",
                hint="call trigger(...) before apply(...)",
            )
        kind = _typed.check_type(output_type)
        trigger = self._trigger
        environment = self._pair.streams[0].get_execution_environment()
        window = WindowSpec(
            assigner=assigner,
            trigger=trigger or assigner.get_default_trigger(environment),
            window_function=function,
            allowed_lateness=self._lateness(),
            evictor=self._evictor,
        )
        keyed = [
            PartitionTransformation(
                "Hash",
                inputs=(stream.transformation,),
                output_type=stream.declared_type,
                partitioning=Hash(key),
            )
            for stream, key in zip(self._pair.streams, self._pair.keys, strict=True)
        ]
        return two_inputs(
            self._pair.streams[0],
            keyed,
            name,
            CoGroupWindowSpec(window),
            kind,
            self._pair.keys,
            f"{name}({assigner}, {type(window.trigger).__name__}, {type(function.function).__name__})",
        )


class CoGroupedWindow(WindowedPair):
    """A coGroup with keys and windows."""

    def apply(
        self,
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call a function with the elements of both streams, for every non-empty key and window."""
        check_function(function, CoGroupFunction, "co_group", ("first", "second"))
        return self._build("CoGroup", CoGroupAdapter(function), output_type)


class PairAdapter(WindowFunctionAdapter):
    """Base of the adapters that separate the elements of a window by stream."""

    method = ""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.call: Any = getattr(function, self.method, None) or function

    @staticmethod
    def split(elements: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        """Return the elements of the first stream and those of the second."""
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side, value in elements:
            sides[side].append(value)
        return sides


class CoGroupAdapter(PairAdapter):
    """Calls `co_group(first, second)`."""

    method = "co_group"

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        return self.call(*self.split(elements))


def two_inputs(
    stream: DataStream,
    inputs: Iterable[Transformation],
    name: str,
    spec: OperatorSpec,
    output_type: TypeInformation | None,
    key_selectors: Iterable[Any],
    description: str,
) -> DataStream:
    """Add an operator that reads two keyed inputs."""
    environment = stream.get_execution_environment()
    operator = OperatorTransformation(
        name,
        inputs=tuple(inputs),
        output_type=output_type,
        spec=spec,
        key_selectors=tuple(key_selectors),
        description=description,
    )
    environment.add_operator(operator)
    return DataStream(environment, operator)

"""Slot sharing groups and their resources."""

from __future__ import annotations

from penstock.datastream._not_implemented import not_implemented
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_int, check_text
from penstock.options.config_values import format_memory, parse_memory

_KIBI = 1 << 10
_MEBI = 1 << 20
_GIBI = 1 << 30
_TEBI = 1 << 40


class MemorySize:
    """A number of bytes.

    >>> MemorySize.of_mebi_bytes(3).get_kibi_bytes()
    3072
    """

    get_java_memory_size = not_implemented("there is no JVM object behind a MemorySize")

    def __init__(self, j_memory_size: object = None, bytes_size: int | None = None) -> None:
        if j_memory_size is not None:
            raise ArgumentTypeError(
                "MemorySize does not accept JVM objects", hint="use MemorySize(bytes_size=...)"
            )
        self._bytes = check_int(bytes_size, "bytes_size", minimum=0)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return a size of this many MiB."""
        return MemorySize(bytes_size=check_int(mebi_bytes, "mebi_bytes", minimum=0) * _MEBI)

    def get_bytes(self) -> int:
        """Return the bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the whole KiB."""
        return self._bytes // _KIBI

    def get_mebi_bytes(self) -> int:
        """Return the whole MiB."""
        return self._bytes // _MEBI

    def get_gibi_bytes(self) -> int:
        """Return the whole GiB."""
        return self._bytes // _GIBI

    def get_tebi_bytes(self) -> int:
        """Return the whole TiB."""
        return self._bytes // _TEBI

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < other._bytes

    def __le__(self, other: MemorySize) -> bool:
        return self._bytes <= other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"MemorySize(bytes_size={self._bytes})"

    def __str__(self) -> str:
        text = format_memory(self._bytes)
        return f"{self._bytes} bytes" if text.endswith(" b") else text


class SlotSharingGroup:
    """A group of operators that may share a slot, with the resources of such a slot.

    A job whose slots exceed a Spark executor is rejected. Nothing is reserved: tasks share the memory of their executor.

    >>> group = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512)
    >>> group.build().get_task_heap_memory().get_mebi_bytes()
    512
    """

    get_java_slot_sharing_group = not_implemented(
        "there is no JVM object behind a slot sharing group"
    )

    def __init__(
        self,
        name: str,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        self._name = check_text(name, "the name of a slot sharing group")
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    @staticmethod
    def builder(name: str) -> Builder:
        """Return a builder."""
        return Builder(name)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """Return the cores, if set."""
        return self._cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the heap memory, if set."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the off-heap memory, if set."""
        return self._task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory, if set."""
        return self._managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Return the amounts of external resources by name."""
        return dict(self._external_resources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"SlotSharingGroup({self._name!r})"


class Builder:
    """Builds a SlotSharingGroup."""

    def __init__(self, name: str) -> None:
        self._name = check_text(name, "the name of a slot sharing group")
        self._cpu_cores: float | None = None
        self._heap: MemorySize | None = None
        self._off_heap: MemorySize | None = None
        self._managed: MemorySize | None = None
        self._external: dict[str, float] = {}

    def set_cpu_cores(self, cpu_cores: float) -> Builder:
        """Set the cores."""
        if cpu_cores <= 0:
            raise ArgumentError(f"cpu_cores must be greater than 0, got {cpu_cores}")
        self._cpu_cores = float(cpu_cores)
        return self

    def set_task_heap_memory(self, task_heap_memory: MemorySize | str) -> Builder:
        """Set the heap memory."""
        self._heap = _check_positive(_size(task_heap_memory))
        return self

    def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> Builder:
        """Set the heap memory in MiB."""
        self._heap = _check_positive(MemorySize.of_mebi_bytes(task_heap_memory_mb))
        return self

    def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize | str) -> Builder:
        """Set the off-heap memory."""
        self._off_heap = _size(task_off_heap_memory)
        return self

    def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> Builder:
        """Set the off-heap memory in MiB."""
        self._off_heap = MemorySize.of_mebi_bytes(task_off_heap_memory_mb)
        return self

    def set_managed_memory(self, managed_memory: MemorySize | str) -> Builder:
        """Set the managed memory."""
        self._managed = _size(managed_memory)
        return self

    def set_managed_memory_mb(self, managed_memory_mb: int) -> Builder:
        """Set the managed memory in MiB."""
        self._managed = MemorySize.of_mebi_bytes(managed_memory_mb)
        return self

    def set_external_resource(self, name: str, value: float) -> Builder:
        """Set the amount of an external resource, such as a GPU."""
        self._external[check_text(name, "the name of a resource")] = float(value)
        return self

    def build(self) -> SlotSharingGroup:
        """Return the group."""
        if self._cpu_cores is None and self._heap is None:
            if self._off_heap is not None or self._managed is not None or self._external:
                raise ArgumentError(
                    "the resources of a slot sharing group are incomplete",
                    hint="set cpu_cores and task_heap_memory, or no resource at all",
                )
            return SlotSharingGroup(self._name)
        if self._cpu_cores is None or self._heap is None:
            raise ArgumentError(
                "the resources of a slot sharing group are incomplete",
                hint="set both cpu_cores and task_heap_memory, or neither",
            )
        nothing = MemorySize(bytes_size=0)
        return SlotSharingGroup(
            self._name,
            self._cpu_cores,
            self._heap,
            nothing if self._off_heap is None else self._off_heap,
            nothing if self._managed is None else self._managed,
            self._external,
        )


def _check_positive(size: MemorySize) -> MemorySize:
    if size.get_bytes() <= 0:
        raise ArgumentError("the heap memory of a slot sharing group must be greater than 0")
    return size


def _size(size: MemorySize | str) -> MemorySize:
    if isinstance(size, MemorySize):
        return size
    try:
        return MemorySize(bytes_size=parse_memory(size))
    except ValueError as error:
        raise ArgumentError(
            f"invalid memory size '{size}'",
            detail=str(error),
            hint="write it as '512 mb' or '2 gb'",
        ) from None

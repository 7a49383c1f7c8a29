"""Port numbers and ranges of ports, as Flink's options write them."""

from __future__ import annotations

from penstock import options
from penstock.errors import ConfigurationError


def parse_ports(text: str) -> tuple[int, ...]:
    """Parse `8081`, `8081-8090` or a comma-separated list of such."""
    ports: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.strip().partition("-")
            ports.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        ports = []
    if not ports or not all(0 <= port <= 65535 for port in ports):
        raise ConfigurationError(
            f"option '{options.REST_BIND_PORT.key}': invalid port range '{text}'",
            hint="write 8081, 8081-8090 or 8081,8083",
        )
    return tuple(ports)

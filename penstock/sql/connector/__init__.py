"""Tables of other systems: the interface, and one module per connector."""

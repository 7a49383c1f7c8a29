"""Change events of Debezium, Canal and Maxwell."""

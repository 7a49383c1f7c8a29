"""The PostgreSQL server of the tests."""

"""Tables whose rows a program gives, for tests of queries."""

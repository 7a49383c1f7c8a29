"""SQL and the Table API below PyFlink's names: types, expressions, parser, plans, execution."""

"""What tests build jobs, plans and their parts of."""

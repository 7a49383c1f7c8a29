"""What a program needs besides Penstock: Python files, packages, archives, and optional libraries."""

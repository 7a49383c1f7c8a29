"""`datagen`: tables that make up their rows."""

"""The hashmap backend: keyed state as Python objects in memory."""

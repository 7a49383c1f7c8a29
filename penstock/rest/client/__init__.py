"""Clients of the API: of a process, of a session, and of a standby JobManager."""

"""What handlers of requests work with: published jobs, TaskManagers, uploaded programs, samples and running operations."""

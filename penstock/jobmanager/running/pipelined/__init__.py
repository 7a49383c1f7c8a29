"""Running a job as stages that stay: records flow, and checkpoints are triggered in tasks that go on."""

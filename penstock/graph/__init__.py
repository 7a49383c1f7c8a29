"""The ladder of plans: transformations, StreamGraph, JobGraph, ExecutionGraph, StagePlan."""

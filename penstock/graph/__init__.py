"""The plans of a program, in order: transformations, StreamGraph, JobGraph, StagePlan."""

"""Another parallelism for a running job: on request, or by the autoscaler."""

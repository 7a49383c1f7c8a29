"""Session mode: the Dispatcher accepts jobs from clients, keeps them in a job store, and runs each with a JobMaster."""

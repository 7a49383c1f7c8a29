"""Session mode: the Dispatcher takes jobs from clients, keeps them in a job store, and has a JobMaster run each."""

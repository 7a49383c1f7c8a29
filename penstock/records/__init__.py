"""Records apart from their processing: how they are printed, and which are dropped, suspicious or failed."""

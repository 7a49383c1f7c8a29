"""The driver's side of sources: splits, their assignment, and watermark alignment."""

"""Who may send which requests: tokens, client certificates, TLS, and the audit log."""

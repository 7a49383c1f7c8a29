"""High availability: several JobManagers, leader election, fencing and failover."""

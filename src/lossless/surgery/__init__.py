"""What people change in an archive on purpose: each change is planned first, then applied."""

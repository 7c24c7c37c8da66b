"""What comes in: each event stored once, whatever the host does."""

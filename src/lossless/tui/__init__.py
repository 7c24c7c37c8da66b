"""The terminal interface: leafs through an archive, shows what the model sees, and does surgery after a preview."""

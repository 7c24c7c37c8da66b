"""Large payloads: what leaves a message, where its bytes lie, and what is said about them."""

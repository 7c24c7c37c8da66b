"""Large payloads: extraction from messages, storage on disk, and descriptions."""

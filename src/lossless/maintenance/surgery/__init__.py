"""Changes that users make to contexts and summaries: each is planned first, then applied, and can be undone."""

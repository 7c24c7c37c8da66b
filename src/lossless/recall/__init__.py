"""Getting words back: what a question asks for, where it is, and which answer comes first."""

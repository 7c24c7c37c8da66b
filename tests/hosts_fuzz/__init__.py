"""Random hosts, and a judge of what the archive made of them that shares no code with the matcher.

`world.py` is what truly happened, each event with its own identity; `windows.py`, `reducing.py`, `decorating.py`,
`editing.py`, `branching.py`, `regrouping.py` and `producers.py` are hosts, which show it in their way; `rules.py` says
what must come of that, from the identities alone; `judge.py` compares it with the archive and the prompt;
`play.py` runs a host and shortens what failed. The archive never sees an identity unless the host has entry ids.
"""

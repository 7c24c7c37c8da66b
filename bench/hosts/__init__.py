"""The real programs, driven by scripted models and measured at the model's side. `python -m bench.hosts`"""

"""Settings: what may be configured, and the value that holds here.

`Settings` holds checked values; `load` finds them in the environment and in config files;
`write.set_value` writes one into a config file. All are declared once, in `declared.py`.
"""

from lossless.settings.declared import SETTINGS, Settings
from lossless.settings.load import Loaded, Notice, Source, load, to_config
from lossless.settings.overrides import ContextThresholdOverride, Route
from lossless.settings.prices import ModelPrice
from lossless.settings.setting import Setting

__all__ = [
    "SETTINGS",
    "ContextThresholdOverride",
    "Loaded",
    "ModelPrice",
    "Notice",
    "Route",
    "Setting",
    "Settings",
    "Source",
    "load",
    "to_config",
]

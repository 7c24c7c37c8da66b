"""Settings: their declarations, checked values, and how they are loaded and written.

`Settings` holds checked values; `load` finds them in the environment and in config files; `write.set_value` writes one
into a config file. All are declared once, in `declared.py`.
"""

from lossless.settings.declared import SETTINGS, Settings
from lossless.settings.load import LoadedSettings, SettingNotice, SettingSource, load, to_config
from lossless.settings.model_rules import ContextThresholdOverride, ModelPrice, Route
from lossless.settings.setting import Setting

__all__ = [
    "SETTINGS", "ContextThresholdOverride", "LoadedSettings", "ModelPrice", "Route", "Setting", "SettingNotice",
    "SettingSource", "Settings", "load", "to_config",
]  # fmt: skip

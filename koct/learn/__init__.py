"""Networks and how they are fitted.

An architecture is a module with a class `Network`; see `koct.learn.ko`.
"""

ARCHS = {"ko": "koct.learn.ko", "fc": "koct.learn.fc", "fc-fsdp": "koct.learn.fc_fsdp"}

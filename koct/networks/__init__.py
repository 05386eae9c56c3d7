"""Networks and how they are fitted.

An architecture is a module with a class `Network`; see `koct.networks.ko`.
"""

ARCHS = {"ko": "koct.networks.ko", "fc": "koct.networks.fc", "fc-fsdp": "koct.networks.fc_fsdp"}

"""What engines share that run an exported model: see ``modelzoo.engines.protocol`` for the contract.

``source`` has the torch module that is converted and how arrays are nested in inputs and outputs, ``store`` the
directory that holds the converted model and its batch.
"""

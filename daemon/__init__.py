"""The Reef daemon: gateway, experience, learning, releases."""

__version__ = "0.1.0"

"""The rules behind :mod:`privaudit.testing`."""

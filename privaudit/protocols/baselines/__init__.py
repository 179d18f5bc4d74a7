"""Undefended reference protocols, so that every figure has a neighbour."""

"""Secure computation of inner products and sums: what protocols claim, and what they could use."""

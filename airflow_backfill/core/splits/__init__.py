"""Splits (units that advance on their own) and positions (how far each is): one module for each kind."""

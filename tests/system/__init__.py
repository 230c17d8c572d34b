"""Whole builds through the real applications, with real kills, against oracles that share no code with the
product.
"""

"""Texts and numbers for operators: the summary, the forecast, recommendations, ways out of errors."""

"""What people read: the summary, the forecast, recommendations, ways out."""

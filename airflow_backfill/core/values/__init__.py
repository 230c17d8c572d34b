"""Small values without logic of their own: epochs, durations, totals, commands, phases, options."""

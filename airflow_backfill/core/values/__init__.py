"""Small values that everything else is told in: epochs, durations, totals, commands, phases."""

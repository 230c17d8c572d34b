"""The state of a build, folded from committed barriers, and the effects that read and write it."""

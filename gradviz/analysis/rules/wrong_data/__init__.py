"""GV62x to GV65x: axes, targets and arguments that are not those that are meant."""

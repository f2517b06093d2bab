"""GV62x to GV65x: axes, pairs, targets, signs, arguments and results that are not those that are meant."""

"""GV62x and GV63x: axes, masks, pairs and results that are not those that are meant."""

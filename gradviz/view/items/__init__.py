"""The items and links of a view: boxes, leaves beside their uses, values carried round a loop, cuts."""

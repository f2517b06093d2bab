"""The items and links of a view: boxes, leaves beside their users, values carried by loops, cuts."""

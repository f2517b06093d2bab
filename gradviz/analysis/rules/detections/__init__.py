"""Rules about what detectors predict: boxes, cells and classes of many places of which few have an object."""

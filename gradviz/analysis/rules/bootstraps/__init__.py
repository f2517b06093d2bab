"""Rules about the values of what follows a step, which targets and advantages are made of."""

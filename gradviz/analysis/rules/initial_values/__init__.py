"""Rules about the values with which a training begins, where an initialization sets too much or too little."""

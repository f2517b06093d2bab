"""Running the rules, and reporting what they found."""

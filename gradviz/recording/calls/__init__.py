"""The log of every torch call, which `gradviz check` needs, written while the program runs."""

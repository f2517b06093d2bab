"""The log of torch calls that `gradviz check` needs, written while the program runs."""

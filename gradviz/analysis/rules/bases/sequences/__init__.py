"""What rules share about sequences: shifted, padded and masked positions, and what reads which."""

"""The page that compares the ranks of a job."""

"""GV81x and GV82x: what goes wrong between the ranks of a job."""

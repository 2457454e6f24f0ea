"""One attempt at one trial, in the process that trains it: resume, run, record, handle failure."""

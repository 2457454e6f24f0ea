"""The HTML report, and the files that a sweep leaves in its folder."""

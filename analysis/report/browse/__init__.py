"""The page to browse: all rows of a store in one HTML file, with charts that need no network."""

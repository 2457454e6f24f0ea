"""Tables of a sweep and the ways to print them: terminal, Markdown, LaTeX, CSV."""

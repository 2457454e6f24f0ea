"""Models of the papers' theorems with hand-written weights, and upper bounds without positions.

`addition` and `multiplication` are constructions, `formal` the Transformer they run through;
`exactness` makes trials of them; `ceilings` is what one layer without positions cannot exceed.
"""

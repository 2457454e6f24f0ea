"""Models of the papers' theorems with hand-written weights, and upper bounds without positions.

`addition` and `multiplication` are constructions, `formal` the Transformer they run through,
`forms` and `positions` what their weights are written with; `exactness` checks them; `ceilings` is
what one layer without positions cannot exceed.
"""

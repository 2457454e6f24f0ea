"""Models of the papers' theorems with weights written by hand, and ceilings for those without.

`addition` and `multiplication` are constructions, `formal` the Transformer they run through,
`forms` and `positions` what their weights are written with; `exactness` checks them; `ceilings` is
what one layer without positions cannot exceed.
"""

"""What several figures share: the axes that a sweep varies, the style of a cell, drawn marks."""

from pcore.mixing import Mixer, make_weight


class Mean(Mixer):
    """The mean of all tokens so far, projected."""

    separable = True

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.weight = make_weight(config.d_model, config.d_model, 1 / config.d_model, rng)

    def mix(self, x, ids, encoding):
        count = x.new_ones(x.shape[1], 1).cumsum(dim=0)
        return (x.cumsum(dim=1) / count) @ self.weight

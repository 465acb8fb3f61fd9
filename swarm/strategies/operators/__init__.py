"""Pure functions on arrays that strategies are composed of."""

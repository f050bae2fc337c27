"""Operations by concept, each with its rule for dims and its computation on arrays."""

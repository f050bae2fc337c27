"""Operations on the axes of arrays, a module per theme. `returnn.frontend.array_` hands them on."""

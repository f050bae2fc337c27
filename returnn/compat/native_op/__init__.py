"""Operations on raw tensors under the names that they had when each was compiled for itself."""

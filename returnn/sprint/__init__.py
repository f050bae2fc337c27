"""What runs inside of RASR, the speech recognition toolkit which was called Sprint."""

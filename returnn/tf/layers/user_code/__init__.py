"""What a config's own classes and functions promise, and how they see a tensor."""

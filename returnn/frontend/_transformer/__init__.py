"""What encoders and decoders share: feed-forward modules, and how parts are given as classes, dicts or modules."""

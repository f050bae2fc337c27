"""How a layer class declares its options, how they are checked, and under which name a config finds the class."""

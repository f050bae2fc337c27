"""What asks the operating system: programs, libraries, modules, and how this process was started."""

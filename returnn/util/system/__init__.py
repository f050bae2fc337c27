"""The machine and this process: devices, threads, the terminal, versions."""

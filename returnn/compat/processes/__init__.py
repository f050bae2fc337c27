"""Old modules about processes: managers, contexts of multiprocessing, code that is loaded again."""

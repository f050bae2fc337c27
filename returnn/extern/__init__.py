"""Names of packages beside the toolkit, under which configs import what is part of it now."""

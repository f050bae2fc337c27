"""
The past: what exists only because an old name, an old module path or an old form of an argument was promised.

Nothing else imports this package, except modules at documented paths which do nothing but hand its names on, and
`returnn` itself, which installs the hooks for old module names.
"""

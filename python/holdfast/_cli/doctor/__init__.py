"""`holdfast doctor`: checks the machine and a root. Each kind of check has a module."""

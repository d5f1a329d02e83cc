"""A folder of the import path, from which a Python process that starts loads ``sitecustomize``."""

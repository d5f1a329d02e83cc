"""All options, declared once: flags, configuration files, keyword arguments, signatures and help derive from them."""

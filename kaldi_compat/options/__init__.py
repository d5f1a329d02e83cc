"""Every option once: flags, configuration files, keyword arguments, help and documentation derive from it."""

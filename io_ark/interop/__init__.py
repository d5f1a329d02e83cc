"""Names and behaviour of other libraries over io_ark."""

"""APIs of other libraries, implemented by io_ark."""

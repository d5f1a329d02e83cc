"""Tables of objects by key: sequential and random-access readers, writers, script files."""

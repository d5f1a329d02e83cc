"""Shared code of the programs and the dump: option parsing, logs, the table loop."""

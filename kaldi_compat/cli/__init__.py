"""Code that programs and the dump share: option parsing, logs, the table loop."""

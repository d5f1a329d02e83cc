"""Write the generated files: ``python -m generate``."""

from generate.targets import write

if __name__ == "__main__":
    write()

"""Write the generated files: ``python -m tools.generate``."""

from tools.generate.targets import write

if __name__ == "__main__":
    write()

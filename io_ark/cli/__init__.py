"""The program ``ark``: inspect, check, compare and convert archives and script files."""

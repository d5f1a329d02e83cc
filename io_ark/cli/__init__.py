"""The program ``ark``: what an archive or script file holds, and what is wrong with it."""

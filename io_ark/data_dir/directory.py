class DataDir: pass

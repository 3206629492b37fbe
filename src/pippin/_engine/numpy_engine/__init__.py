"""The engine in NumPy: whole blocks, every class, no early stop. Small data use it; compiled loops are tested by it."""

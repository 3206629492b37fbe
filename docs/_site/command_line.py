"""The directive `pippin-commands`: every command with its arguments and options, from the command line itself."""
def setup(app):
    return {"parallel_read_safe": True}

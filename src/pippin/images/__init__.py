"""Photographs: cut into labelled windows, and a network trained on them. Needs the extra `vision`."""

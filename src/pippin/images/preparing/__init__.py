"""Photographs with masks, cut into labelled windows: WE3DS. Needs the extra `vision`."""

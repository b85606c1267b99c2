"""``iclflow explore``: a local page with sliders."""

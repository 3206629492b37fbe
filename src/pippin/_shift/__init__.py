"""Distribution shift: likelihood ratios, class ratios and novelty detection."""

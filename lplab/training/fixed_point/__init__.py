"""Training in fixed point as in Gupta et al. 2015, in numpy alone."""

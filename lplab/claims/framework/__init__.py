"""What all claims share: the claim as data, its measurements, their storage, the verdict, and the pages."""

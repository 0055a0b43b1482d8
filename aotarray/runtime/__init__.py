"""Running compiled programs: the launcher, the encoding of programs, images."""

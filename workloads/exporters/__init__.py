"""Writers that turn networks into files."""

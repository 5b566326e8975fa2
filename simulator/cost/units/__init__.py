"""How long the matrix and vector units inside a device take for products and element-wise work."""

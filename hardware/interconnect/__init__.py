"""What joins the cores of an array: fabrics by topology, and routes over them."""

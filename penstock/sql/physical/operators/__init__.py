"""The nodes of physical plans, one module each: the node, what it says about itself, and how it is made of logical nodes."""

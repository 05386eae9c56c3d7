"""One cell of the study from pool to row, and the tables that rows become."""

"""What the verbs for people print and plot."""

"""From pairs to the learning curve of a network, before any fit of the study."""

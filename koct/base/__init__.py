"""What knows nothing of the study: arrays and devices, files and their stamps, how a command fails."""

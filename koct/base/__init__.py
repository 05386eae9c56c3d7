"""What knows nothing of the study: arrays and devices, files and their stamps, how a command fails."""

FRESH = -1  # the N of training pairs that never repeat; config.yaml and names of files say `fresh`

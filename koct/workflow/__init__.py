"""The workflow's own matters: the config, paths, code hashes, resources, the queue."""

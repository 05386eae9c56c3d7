# The package beside the Snakefile is the one that runs; config files are read strictly before Snakemake reads them.

import os
import sys

from snakemake.exceptions import WorkflowError

# the folder of koct's Snakefile, which may be a module of another one
ROOT = os.path.dirname(workflow.current_basedir.get_path_or_uri(secret_free=True))
sys.path.insert(0, ROOT)

from koct.base import strict_yaml
from koct.errors import KoctError

try:
    # whether config.yaml may be missing, since others are given, is Snakemake's to say
    strict_yaml.check_files(
        [*(["config.yaml"] if os.path.exists("config.yaml") else []), *workflow.overwrite_configfiles]
    )
except KoctError as error:
    raise WorkflowError(str(error))

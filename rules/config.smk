# The package beside the Snakefile is the one that runs; config files are read strictly before Snakemake reads them.

import os
import sys

from snakemake.exceptions import WorkflowError

sys.path.insert(0, workflow.basedir)

from koct.base import strict_yaml
from koct.errors import KoctError

try:
    # whether config.yaml may be missing, since others are given, is Snakemake's to say
    strict_yaml.check_files(
        [*(["config.yaml"] if os.path.exists("config.yaml") else []), *workflow.overwrite_configfiles]
    )
except KoctError as error:
    raise WorkflowError(str(error))

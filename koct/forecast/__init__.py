"""From pilot runs to the number of samples that a target error takes, with intervals; for any learning curve."""

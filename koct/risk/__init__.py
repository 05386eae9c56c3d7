"""The risk estimator. Knows nothing of tomography: any layered network, any learning curve."""

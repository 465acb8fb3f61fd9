"""Studies behind docs/evidence: scripts over the searches of ``swarm compare``."""

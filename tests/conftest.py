"""For all tests: no time limit on Hypothesis' examples, which a busy machine would break at random."""

from hypothesis import HealthCheck, settings

settings.register_profile("smqpd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("smqpd")

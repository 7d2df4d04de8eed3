"""For all tests: no time limit on Hypothesis' examples, which a busy machine would break at random.

The profile `unshrunk` is for who only wants to know whether a test fails.
"""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile("smqpd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "unshrunk", settings.get_profile("smqpd"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("smqpd")

"""The Spark jobs that rebuild every route from the hop logs of all sites. Nothing of the daemon imports this.

Only DataFrame operations: no function of Python runs on an executor, so a cluster needs no more than Spark
and the package's zip. `batch` is the order in which the jobs run; README.md documents tables and commands.
"""

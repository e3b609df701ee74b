"""One agent of the population in a process of its own: `python -m lspc.sims.collect._worker SPEC FILE`.

Its progress goes to standard output as JSON lines, its episodes into an NPZ file.
"""

import json
import sys

import numpy as np

from lspc import files
from lspc.sims.collect.population import AgentSpec
from lspc.system import end_with_parent
from lspc.tasks import get_task


def main() -> None:
    end_with_parent()
    spec = AgentSpec(**json.loads(sys.argv[1]))
    # Each kind imports much that the others have no use for: a learner JAX, a driver its simulator.
    if spec.driver and get_task(spec.task).suite == "metadrive":
        from lspc.sims.collect.drivers import drive as run
    elif spec.driver:
        from lspc.sims.collect.navigators import navigate as run
    else:
        from lspc.sims.collect.agent import train_agent as run
    arrays = run(spec, lambda progress: print(json.dumps(progress), flush=True))
    with files.atomic_path(sys.argv[2]) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()

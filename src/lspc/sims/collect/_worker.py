"""One agent of the population in a process of its own: `python -m lspc.sims.collect._worker SPEC FILE`.

Its progress goes to standard output as JSON lines, its episodes into an NPZ file.
"""

import json
import sys

import numpy as np

from lspc import files
from lspc.errors import UserError
from lspc.sims.collect.episodes import check_finite
from lspc.sims.collect.population import AgentSpec
from lspc.system import end_with_parent
from lspc.tasks import get_task


def main() -> None:
    end_with_parent()
    try:
        carry_out(AgentSpec(**json.loads(sys.argv[1])), sys.argv[2])
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def carry_out(spec: AgentSpec, part: str) -> None:
    # Each kind imports much that the others have no use for: a learner JAX, a driver its simulator.
    if spec.driver and get_task(spec.task).suite == "metadrive":
        from lspc.sims.collect.drivers import drive as run
    elif spec.driver:
        from lspc.sims.collect.navigators import navigate as run
    else:
        from lspc.sims.collect.agent import train_agent as run
    arrays = run(spec, lambda progress: print(json.dumps(progress), flush=True))
    check_finite(arrays)
    with files.atomic_path(part) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()

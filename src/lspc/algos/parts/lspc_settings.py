"""LSPC's settings: what each means, the presets, and what a task changes."""

from dataclasses import dataclass
from typing import Any, Literal

from lspc.tasks import Task


@dataclass(frozen=True)
class Config:
    steps: int = 30_000
    """Gradient updates."""
    batch_size: int = 256
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of every network."""
    roles: Literal["safety-first", "converse"] = "safety-first"
    """The CVAE learns safe actions and the encoder seeks reward, or (an ablation) the other way round."""
    latent_dim: int = 32
    """Size of the latent safety space."""
    learning_rate: float = 1e-3
    """Adam's step size, for all parts."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and cost alike."""
    target_rate: float = 0.02
    """Share of the fast Q networks mixed into their slow copies at every update."""
    expectile: float = 0.7
    """xi of the asymmetric loss: 0.5 values the data's average action; higher, its better (or safer) ones."""
    cost_temperature: float = 2.0
    """lambda, sharpness of the cost weights; used when cost_share is none. It weighs scaled costs."""
    reward_temperature: float = 2.0
    """zeta, sharpness of the reward weights; used when reward_share is none."""
    max_weight: float = 200.0
    """Largest weight of one transition in a regression with a fixed temperature."""
    cost_share: float | None = 0.2
    """Choose lambda per batch so that this share of it counts in the CVAE's regression; none: cost_temperature."""
    reward_share: float | None = 0.4
    """Choose zeta per batch so that this share of it counts as rewarding; none: reward_temperature."""
    reference_share: float | None = 0.2
    """LSPC-O imitates rewarding actions among this safest share of the batch; none (and the converse): among all."""
    safety_spend: float = 0.5
    """Share of the safety gained by reference_share that LSPC-O may give back for reward."""
    record_share: float | None = 0.25
    """LSPC-O imitates episodes cheap enough for its eps, mostly this best share of them; none: single actions."""
    search: float = 0.0
    """Weight of the critics' values of LSPC-O's own actions, beside the imitation loss; 0: none."""
    caution: float = 4.0
    """Penalty in the search, at eps 0, on actions whose Q_c exceeds V_c; it falls to 0 at the largest eps."""
    averaging: float | None = 10.0
    """Act with weights averaged over about the last 1/averaging of all updates; none: with those of the last one."""
    kl_weight: float = 0.5
    """Weight of the CVAE's divergence from the standard normal."""
    kl_form: Literal["mean", "sum"] = "mean"
    """Divergence averaged or summed over the latent's dimensions."""
    zero_share: float = 0.25
    """Fit this share of a batch at latent zero; what is unexplained there weighs the divergence. 0: neither."""
    restriction: float = 1.0
    """LSPC-O's eps unless another is given: its latents stay inside (-restriction, restriction)."""
    restriction_range: tuple[float, float] | None = (0.02, 2.0)
    """The encoder is trained for every eps in this range; none: for the one restriction only."""
    safe_restriction: float = 0.25
    """eps of LSPC-S."""
    latent_form: Literal["clamp", "tanh", "truncated"] = "truncated"
    """How LSPC-S draws a latent inside its restriction: a clamped, squashed or truncated normal."""
    timeouts_end_episode: bool = True
    """Treat a time-out like a terminal state instead of looking past it, where there are no data."""
    released_critics: bool = False
    """Critics as in the released code: V_c is clamped inside its own loss, and states below zero stay stuck."""
    cost_mask: float | None = None
    """Give no weight to transitions unless both V_c and Q_c are below this (the paper's 0.02 on MetaDrive)."""
    renormalise_mask: bool = False
    """Divide the masked regression by the transitions that are left instead of the whole batch."""
    normalise_observations: bool = True
    """Give the networks observations of zero mean and unit spread."""
    scale_signals: bool = True
    """Centre rewards, scale rewards and costs: critics learn values of one size on every task, in any units."""

    @property
    def uses_record(self) -> bool:
        return self.record_share is not None and self.restriction_range is not None and self.roles == "safety-first"

    @property
    def smallest_box(self) -> float:
        """Where eps says which episodes are imitated, a box smaller than 1 would only hide their actions."""
        return 1.0 if self.uses_record else 0.0


RENAMED = {"clamp_value_in_loss": "released_critics", "scale_rewards": "scale_signals"}
"""Settings that runs of earlier versions know by another name."""
ADDED: dict[str, Any] = {"record_share": None, "averaging": None, "zero_share": 0.0}
"""Settings that runs of earlier versions do not know, as they were then."""
AS_PRINTED: dict[str, Any] = {
    "steps": 1_000_000,
    "batch_size": 1024,
    "latent_dim": 32,
    "learning_rate": 3e-4,
    "discount": 0.99,
    "target_rate": 0.005,
    "expectile": 0.7,
    "cost_temperature": 2.0,
    "reward_temperature": 2.0,
    "max_weight": 200.0,
    "cost_share": None,
    "reward_share": None,
    "reference_share": None,
    "record_share": None,
    "averaging": None,
    "kl_weight": 0.5,
    "zero_share": 0.0,
    "restriction": 0.25,
    "restriction_range": None,
    "safe_restriction": 0.25,
    "latent_form": "clamp",
    "timeouts_end_episode": False,
    "normalise_observations": False,
    "scale_signals": False,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 8_000},
    "paper": AS_PRINTED,
    "official": {
        **AS_PRINTED,
        "timeouts_end_episode": True,
        "released_critics": True,
    },
}


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    """A wider box on Bullet (but AntRun), in the released code for LSPC-S too, and the cost mask on MetaDrive."""
    settings: dict[str, Any] = {}
    if preset in ("paper", "official") and task.suite == "bullet" and task.name != "AntRun":
        settings["restriction"] = 0.6
        if preset == "official":
            settings["safe_restriction"] = 0.6
    if preset in ("paper", "official") and task.suite == "metadrive":
        settings["cost_mask"] = 0.02
    return settings

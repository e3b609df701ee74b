"""The policies as ONNX graphs: one function per kind of policy describes it with the pieces of `onnx_graph`.

A new kind is a function here and its line in `DESCRIBE`. Every graph has the input `observation` and the output
`action`, which is the deterministic one unless `noise` is given.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from lspc.algos.base import Policy
from lspc.algos.bc import BcPolicy
from lspc.algos.bcq_lag import BcqLagPolicy
from lspc.algos.fisor import FisorPolicy
from lspc.algos.lspc import LspcPolicy
from lspc.algos.parts import cvae, diffusion
from lspc.algos.parts.gaussian import GaussianPolicy
from lspc.data.bounds import Bounds
from lspc.deploy.onnx_graph import Graph, Network, draw_normal, split_rows
from lspc.errors import UserError

Q_VALUES = {
    "cost": "discounted cost that Q_c expects of the action; empty unless asked for with `judge`, as those below",
    "reward": "discounted reward that Q_r expects of it",
    "safe_cost": "what Q_c expects of the safe action",
    "safe_reward": "what Q_r expects of it",
}


def build(
    policy: Policy, *, facts: dict[str, str], fixed: bool = False, bounds: Bounds | None = None
) -> onnx.ModelProto:
    """The policy as a model; `fixed` takes eps and noise from the inputs, so that nobody changes them.

    Its actions come out within `bounds`, [-1, 1] unless given.
    """
    own = type(policy)
    # A subclass that acts in its own way would be exported as what it is not.
    kind = next((kind for kind in own.__mro__ if kind in DESCRIBE and kind.__call__ is own.__call__), None)
    if kind is None:
        raise UserError(f"{own.__name__} has no ONNX graph: describe it in lspc/deploy/onnx_policies.py")
    graph = Graph(fixed=fixed, bounds=bounds)
    DESCRIBE[kind](graph, policy)
    return graph.to_model(facts)


def describe_bc(graph: Graph, policy: BcPolicy) -> None:
    seen = graph.observe(policy.normaliser)
    net = Network(graph, policy.net, seen, _size(policy))
    graph.give_action("action", graph.add("Tanh", net.output(net.of_observation)), _width(policy.net))


def describe_gaussian(graph: Graph, policy: GaussianPolicy) -> None:
    """BEAR-Lag, CPQ and COptiDICE: a normal actor squashed by tanh."""
    seen = graph.observe(policy.normaliser)
    noise = _take_noise(graph, policy.noise_dim)
    actor = Network(graph, policy.actor, seen, _size(policy))
    drawn = graph.add("Tanh", draw_normal(graph, actor.output(actor.of_observation), noise, -5.0, 2.0))
    graph.give_action("action", drawn, policy.noise_dim)


def describe_bcq_lag(graph: Graph, policy: BcqLagPolicy) -> None:
    """The CVAE's action for a typical latent, moved a little."""
    seen, size = graph.observe(policy.normaliser), _size(policy)
    noise = _take_noise(graph, policy.noise_dim)
    decoder = Network(graph, policy.decoder, seen, size, gemm=False)
    latent = graph.clip(noise, -cvae.TYPICAL, cvae.TYPICAL)
    proposed = graph.add("Tanh", decoder.output(decoder.with_input(latent)))
    actor = Network(graph, policy.actor, seen, size)
    direction = graph.add("Tanh", actor.output(actor.with_input(proposed)))
    moved = graph.add("Add", proposed, graph.add("Mul", direction, graph.weight(policy.config.perturbation)))
    graph.give_action("action", graph.clip(moved, -1.0, 1.0), _width(policy.decoder))


def describe_lspc(graph: Graph, policy: LspcPolicy) -> None:
    """LSPC-O and LSPC-S share a decoder; the converse has no LSPC-S.

    The critics are four times the work of an action, so they run only when asked.
    """
    seen = graph.observe(policy.normaliser)
    decoder = Network(graph, policy.decoder, seen, _size(policy))
    latent = _search_latent(graph, policy, seen)
    firsts = {"action": decoder.with_input(latent)}
    if "LSPC-S" in policy.variants:
        firsts["safe_action"] = decoder.of_observation
    actions = {name: graph.add("Tanh", decoder.output(first)) for name, first in firsts.items()}
    for name in reversed(actions):  # the safe one first: it stands in for the other
        meaning = f"of {'LSPC-S' if name == 'safe_action' else policy.variants[0]}"
        instead = "safe_action" if name == "action" and "safe_action" in actions else None
        graph.give_action(name, actions[name], _width(policy.decoder), meaning, instead=instead)
    graph.outputs.reverse()
    names = [name for name in Q_VALUES if _action_of(name) in actions]
    asked = graph.take_flag("judge", "true asks the critics too; false unless given")
    q_values, nothing = _evaluate_critics(graph, policy, seen, names), _skip_critics(names)
    graph.nodes.append(helper.make_node("If", [asked], names, then_branch=q_values, else_branch=nothing))
    for name in names:
        graph.give(name, ["judged", 1], Q_VALUES[name])


def _search_latent(graph: Graph, policy: LspcPolicy, seen: str) -> str:
    """LSPC-O's latent: eps (or the smallest box) times tanh(mean + spread noise)."""
    config, first, size = policy.config, policy.encoder.layers[0], _size(policy)
    own = np.reshape(policy.restriction, (1,))
    eps = graph.take_optional("eps", [1], "how far to look for reward; the run's own unless given", own)
    noise = _take_noise(graph, config.latent_dim)
    bias = graph.weight(first.bias)
    if config.restriction_range is not None:  # told eps scaled to [-1, 1]: one more input of weight w adds w eps'
        told = graph.add(
            "Sub", graph.add("Mul", eps, graph.weight([2.0 / config.restriction_range[1]])), graph.weight([1.0])
        )
        bias = graph.add("Add", bias, graph.add("Mul", told, graph.weight(first.weight[size])))
    encoder = Network(graph, policy.encoder, seen, size, bias=bias)
    moved = draw_normal(graph, encoder.output(encoder.of_observation), noise, -10.0, 2.0)
    box = graph.add("Max", eps, graph.weight([config.smallest_box])) if config.smallest_box else eps
    return graph.add("Mul", graph.add("Tanh", moved), box)


def _evaluate_critics(graph: Graph, policy: LspcPolicy, seen: str, names: list[str]) -> onnx.GraphProto:
    """The branch that asks the critics; its weights lie in the outer graph."""
    branch, found = Graph(weights=graph.weights), {}
    for kind, twins, worse in (("cost", policy.cost_q, "Max"), ("reward", policy.reward_q, "Min")):
        nets = [Network(branch, net, seen, _size(policy)) for net in twins]
        for name in (name for name in names if name.endswith(kind)):
            both = [net.output(net.with_input(graph.name_action(_action_of(name)))) for net in nets]
            found[name] = branch.add(worse, *both, name=f"asked_{name}")
    outputs = [helper.make_tensor_value_info(found[name], TensorProto.FLOAT, None) for name in names]
    return helper.make_graph(branch.nodes, "critics", [], outputs)


def _action_of(q_value: str) -> str:
    return "safe_action" if q_value.startswith("safe_") else "action"


def _skip_critics(names: list[str]) -> onnx.GraphProto:
    nothing = numpy_helper.from_array(np.zeros((0, 1), np.float32))
    nodes = [helper.make_node("Constant", [], [f"no_{name}"], value=nothing) for name in names]
    outputs = [helper.make_tensor_value_info(f"no_{name}", TensorProto.FLOAT, None) for name in names]
    return helper.make_graph(nodes, "no_critics", [], outputs)


def describe_fisor(graph: Graph, policy: FisorPolicy) -> None:
    """The denoising steps one after the other, for all candidates at once; then the candidate with the least Q_h."""
    config, action_dim = policy.config, policy.actor.last.bias.shape[-1]
    seen = graph.add("Unsqueeze", graph.observe(policy.normaliser), graph.constant(np.array([1])))
    own = jax.random.normal(jax.random.key(0), (1, policy.noise_dim))
    noise = _take_noise(graph, policy.noise_dim, own, "one set drawn once and for all unless given")
    shape = np.array([-1, config.candidates, config.diffusion_steps, action_dim])
    drawn = graph.add("Reshape", noise, graph.constant(shape))
    parts = [graph.add("Gather", drawn, graph.constant(np.array(i)), axis=2) for i in range(config.diffusion_steps)]
    actions = _denoise(graph, policy.actor, seen, _size(policy), parts)
    twins = [Network(graph, net, seen, _size(policy), gemm=False) for net in policy.q_h]
    q_h = graph.add("Max", *(net.output(net.with_input(actions)) for net in twins))
    safest = graph.add("ArgMin", q_h, axis=1, keepdims=0)
    chosen = graph.add("GatherND", actions, safest, batch_dims=1)
    graph.give_action("action", chosen, action_dim)
    graph.add("ReduceMin", q_h, name="feasibility", axes=[1], keepdims=0)
    graph.give("feasibility", ["batch", 1], "Q_h of the action: at most 0 where every violation can still be avoided")


def _denoise(graph: Graph, net: diffusion.Denoiser, seen: str, size: int, noise: list[str]) -> str:
    """What `diffusion.sample` does, with its loop unrolled: (batch, candidates, action)."""
    alphas, products = diffusion.schedule(len(noise))
    guess = _describe_denoiser(graph, net, seen, size)
    x = noise[0]
    for t in reversed(range(len(noise))):
        share = graph.weight((1.0 - alphas[t]) / np.sqrt(1.0 - products[t]))
        x = graph.add("Sub", x, graph.add("Mul", guess(x, t), share))
        x = graph.add("Div", x, graph.weight(np.sqrt(alphas[t])))
        if t > 0:
            fresh = graph.add("Mul", noise[len(noise) - t], graph.weight(np.sqrt(1.0 - alphas[t])))
            x = graph.add("Add", x, fresh)
        x = graph.clip(x, -1.0, 1.0)
    return x


def _describe_denoiser(graph: Graph, net: diffusion.Denoiser, seen: str, size: int) -> Callable[[str, int], str]:
    """epsilon_theta(s, noisy action, t) as nodes; what depends on the time alone is computed here and now."""
    of_noisy, of_seen, of_clock = split_rows(net.first.weight, net.last.bias.shape[-1], size, diffusion.TIME_WIDTH)
    noisy_weight = graph.weight(of_noisy)
    observed = graph.add("MatMul", seen, graph.weight(of_seen))
    blocks = [
        (
            (graph.weight(block.norm.scale), graph.weight(block.norm.shift)),
            [(graph.weight(layer.weight), graph.weight(layer.bias)) for layer in block.mlp.layers],
        )
        for block in net.blocks
    ]
    last = graph.weight(net.last.weight), graph.weight(net.last.bias)

    def dense(x: str, weight: str, bias: str) -> str:
        return graph.add("Add", graph.add("MatMul", x, weight), bias)

    def guess(noisy: str, time: int) -> str:
        phases = 2 * jnp.pi * time * net.frequencies
        clock = net.clock(jnp.concatenate([jnp.cos(phases), jnp.sin(phases)]))
        timed = graph.add("Add", observed, graph.weight(clock @ of_clock + net.first.bias))
        x = graph.add("Add", graph.add("MatMul", noisy, noisy_weight), timed)
        for norm, (wide, narrow) in blocks:
            inner = graph.add("LayerNormalization", x, *norm, axis=-1, epsilon=1e-5)
            x = graph.add("Add", x, dense(graph.activate(diffusion.mish, dense(inner, *wide)), *narrow))
        return dense(graph.activate(diffusion.mish, x), *last)

    return guess


def _take_noise(graph: Graph, size: int, default: Any = None, unless: str = "zero unless given") -> str:
    """Standard normal noise for random actions: a row for each observation or one for all."""
    own = np.zeros((1, size)) if default is None else default
    return graph.take_optional("noise", ["noises", size], f"standard normal, for random actions; {unless}", own)


def _size(policy: Any) -> int:
    return policy.normaliser.mean.shape[0]


def _width(net: Any) -> int:
    return net.layers[-1].bias.shape[0]


DESCRIBE: dict[type[Policy], Callable[[Graph, Any], None]] = {
    BcPolicy: describe_bc,
    BcqLagPolicy: describe_bcq_lag,
    FisorPolicy: describe_fisor,
    GaussianPolicy: describe_gaussian,
    LspcPolicy: describe_lspc,
}
"""Kinds of policy; what inherits one, and acts like it, is described like it."""

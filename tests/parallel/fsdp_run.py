"""A job of real ranks (see ranks.py): trainings under FSDP with few bits, for test_fsdp.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

from lplab.compression.block_codes import BlockCode
from lplab.compression.sharded_weights import LEARNING_RATE, MOMENTUM
from lplab.parallel import local_steps
from lplab.parallel.fsdp import FSDPHook
from lplab.training.loop.trainer import default_loss

BLOCK = 128
STEPS, BATCH, WIDTH = 4, 6, 90  # 90 rows: with four shards the last one is shorter
WEIGHT, COMPRESSOR = "hfp8_forward", "scalecom:chunk=20,beta=0.3"


def model(bias):
    torch.manual_seed(0)
    linear = [nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(3)]
    return nn.Sequential(linear[0], nn.Sequential(nn.ReLU(), linear[1]), nn.ReLU(), linear[2])


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, WIDTH, generator=generator), torch.randint(0, WIDTH, (BATCH,), generator=generator)


def sharded(mesh, bias):
    """Three groups: the second layer's, the third's, and what is left."""
    net = model(bias)
    for layer in (net[1], net[3]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def train(net, hook, steps, first=0, poison=None, overflowing=None):
    """``poison``: (step, rank) with a loss of NaN; ``overflowing``: a step in which a sum over the ranks overflows."""
    rank, skipped = dist.get_rank(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    for step in range(first, first + steps):
        inputs, targets = batch(step, rank)
        optimizer.zero_grad()
        loss = default_loss(net(inputs), targets)
        if step == overflowing:
            loss = net(0 * inputs).sum() * (3e38 / BATCH)  # no rank's gradient alone: that of the last bias is 3e38
        (loss * float("nan") if poison == (step, rank) else loss).backward()
        optimizer.step()
        skipped.append(hook.averages is not None and hook.averages.skipped)
    return {
        "weights": {name: p.full_tensor().detach().clone() for name, p in net.named_parameters()},
        "ledger": [(e.layer, e.kind, e.payload_bytes) for e in hook.ledger.entries],
        "skipped": skipped,
    }


def between_replicas(poison=None):
    """Two shards of two replicas; with fewer ranks, each is a replica with all weights."""
    world = dist.get_world_size()
    shape = (2, 2) if world == 4 else (world, 1)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards"))
    net = sharded(mesh["shards"], bias=True)
    return net, FSDPHook(net, compressor=COMPRESSOR, replicas=mesh["replicas"].get_group(), ordered=True)


def refusals():
    """What is said to models, states and steps that do not fit."""
    world = dist.get_world_size()
    net, hook = between_replicas()
    native = fully_shard(model(bias=True), mesh=init_device_mesh("cpu", (1, world), mesh_dim_names=("a", "b")))
    net[3].weight.requires_grad_(False)

    def step():
        net(batch(0, 0)[0]).sum().backward()

    messages = []
    for work in (lambda: FSDPHook(native), lambda: hook.load_state_dict(hook.state_dict() | {"world": 99}), step):
        try:
            work()
        except (RuntimeError, TypeError, ValueError) as error:
            messages.append(str(error))
    return messages


def from_another_seed():
    """Weights and buffers of this rank before and after the hook, of a model that each rank has made by itself."""
    world = dist.get_world_size()
    shape = (2, 2) if world == 4 else (world, 1)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards"))
    torch.manual_seed(10 + dist.get_rank())
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    net[1].running_mean.normal_()
    fully_shard(net, mesh=mesh["shards"])

    def values():
        local = {name: p.to_local().detach().clone() for name, p in net.named_parameters()}
        return local | {name: b.clone() for name, b in net.named_buffers()}

    before = values()
    FSDPHook(net, compressor=COMPRESSOR, replicas=mesh["replicas"].get_group())
    return {"before": before, "after": values(), "shard": mesh["shards"].get_local_rank()}


class Skipping(nn.Sequential):
    """A network that leaves its last layer out when it is told so."""

    skip = False

    def forward(self, x):
        for layer in self[:-1] if self.skip else self:
            x = layer(x)
        return x


def a_group_left_out():
    """What is said in which step, when a group has gradients in all steps but the second; then a state is loaded."""
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicas", "shards"))
    torch.manual_seed(0)
    net = Skipping(*(nn.Linear(WIDTH, WIDTH) for _ in range(2)))
    fully_shard(net[1], mesh=mesh["shards"])
    fully_shard(net, mesh=mesh["shards"])
    hook = FSDPHook(net, compressor=COMPRESSOR, replicas=mesh["replicas"].get_group())
    said, saved = [], None
    for step in range(4):
        net.skip = step == 1
        net.zero_grad()
        try:
            net(batch(step, dist.get_rank())[0]).pow(2).mean().backward()
            said.append("")
        except RuntimeError as error:
            said.append(str(error))
            hook.load_state_dict(saved)
        saved = hook.state_dict()
    return {"said": said, "step": hook.averages.step}


def per_node(world):
    """Two nodes of two; with three ranks one node."""
    return 2 if world == 4 else world


def zeropp():
    """Weights in 8 bits with scales, gradients in 4 bits by two all-to-alls; a frozen layer, and NaN of one rank."""
    world = dist.get_world_size()
    found = {}
    for name, poison in (("zero++", None), ("zero++ poisoned", (2, world - 1))):
        net = sharded(init_device_mesh("cpu", (world,)), bias=True)
        net[3].bias.requires_grad_(False)
        settings = {"weight": BlockCode("int8", BLOCK), "gradient": BlockCode("int4", BLOCK)}
        hook = FSDPHook(net, **settings, per_node=per_node(world))
        found[name] = train(net, hook, STEPS, poison=poison)
    return found


LOCAL = {"every": 4, "fragments": 2, "delay": 1, "alpha": 0.25, "compressor": "sparseloco:chunk=64,k=4"}
ROUNDS = 3


def learners(world):
    """The ranks of each learner, two but for the last one: the mean of two equal gradients is exact."""
    return [list(range(first, min(first + 2, world))) for first in range(0, world, 2)]


def inner(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def local():
    """Learners whose models are sharded meet through a store; what each rank then has, whole."""
    world, number = dist.get_world_size(), dist.get_rank() // 2
    meshes, found = [DeviceMesh("cpu", ranks) for ranks in learners(world)], {}
    store = dist.PrefixStore("local steps", dist.distributed_c10d._get_default_store())
    saved = None
    for part in ("begun", "resumed"):
        net = sharded(meshes[number], bias=True)
        optimizer = inner(net.parameters())
        settings = LOCAL | {"store": dist.PrefixStore(part, store), "rank": number, "world": len(meshes)}
        run = local_steps(net, optimizer, **settings)
        if saved is not None:
            optimizer.load_state_dict(saved[0])
            run.load_state_dict(saved[1])
        first = 2 * run.meetings.number
        for step in range(first, first + 2 * ROUNDS):
            inputs, targets = batch(step, number)
            optimizer.zero_grad()
            default_loss(net(inputs), targets).backward()
            optimizer.step()
        saved = optimizer.state_dict(), run.state_dict()
        found[part] = {
            "shared": {name: weight.full_tensor().detach() for name, weight in run.shared.weights.items()},
            "own": {name: p.full_tensor().detach().clone() for name, p in net.named_parameters()},
            "took part": run.took_part,
            "sent": run.ledger.total(),
            "learner": number,
            "leads": run.leads,
        }
    native = fully_shard(model(bias=True), mesh=init_device_mesh("cpu", (1, world), mesh_dim_names=("a", "b")))
    try:
        local_steps(native, inner(native.parameters()), store=store, rank=0, world=1)
    except TypeError as error:
        found["refusal"] = str(error)
    return found


def results():
    world = dist.get_world_size()
    net = sharded(init_device_mesh("cpu", (world,)), bias=False)
    found = {"weights in 8 bits": train(net, FSDPHook(net, weight=WEIGHT), STEPS)}
    found["replicas"] = train(*between_replicas(), STEPS)
    net, hook = between_replicas()
    found["poisoned"] = train(net, hook, STEPS, poison=(2, world - 1))
    found["overflowing"] = train(*between_replicas(), STEPS, overflowing=2)
    found["residuals"] = hook.state_dict()["layers"]
    again, resumed = between_replicas()
    again.load_state_dict(net.state_dict())
    resumed.load_state_dict(hook.state_dict())
    found["gone on"], found["resumed"] = (train(n, h, 2, first=STEPS) for n, h in ((net, hook), (again, resumed)))
    found |= zeropp()
    found["local steps"] = local()
    found["refusals"] = refusals()
    found["another seed"] = from_another_seed()
    found["left out"] = a_group_left_out()
    return found

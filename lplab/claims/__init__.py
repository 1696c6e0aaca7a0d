"""Published claims as experiments that anybody can run again: what the paper states, what we see, the verdict.

A claim is a value in :mod:`lplab.claims.claim_catalogue`, from a module of its own in ``lplab/claims/papers``, which
begins with a :class:`ClaimBuilder`. ``lplab claims run`` measures it and stores the numbers under ``data/claims``; the
verdict is computed from the stored numbers, never written by hand.

>>> from lplab import claims
>>> claims.judge("gupta_2015").word
'shown'
"""

from lplab.claims.claim_catalogue import experiments, get, larger, names
from lplab.claims.framework.branches import (
    Branches,
    BranchPlan,
    branch,
    branch_trainer,
    branches,
    checkpoint_steps,
)
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG, QUICK, Claim
from lplab.claims.framework.claim_verdict import ClaimVerdict, judge, stored
from lplab.claims.framework.claims_page import as_page
from lplab.claims.framework.claims_table import (
    as_markdown,
    as_text,
    count_of_larger,
    parity_sentence,
    provenance,
    row,
    verdict_text,
)
from lplab.claims.framework.dask_cluster import dask_cluster
from lplab.claims.framework.drawing import Drawing, DrawnRow
from lplab.claims.framework.parity import NOTHING_TRIED, ParityRow
from lplab.claims.framework.results import Check, CheckResult, Results
from lplab.claims.framework.runner import measure, run_claim
from lplab.claims.framework.store import Session, Stored
from lplab.lookup import refuse_wrong_names

__all__ = [
    "LONG",
    "NOTHING_TRIED",
    "QUICK",
    "BranchPlan",
    "Branches",
    "Check",
    "CheckResult",
    "Claim",
    "ClaimBuilder",
    "ClaimVerdict",
    "Drawing",
    "DrawnRow",
    "ParityRow",
    "Results",
    "Session",
    "Stored",
    "as_markdown",
    "as_page",
    "as_text",
    "branch",
    "branch_trainer",
    "branches",
    "checkpoint_steps",
    "count_of_larger",
    "dask_cluster",
    "experiments",
    "get",
    "judge",
    "larger",
    "measure",
    "names",
    "parity_sentence",
    "provenance",
    "row",
    "run_claim",
    "stored",
    "verdict_text",
]

refuse_wrong_names(__name__)

"""The claims, one value each.

To add another, write its module in ``lplab/claims/papers``, import its value here and add it to the list. The larger
experiment of a claim (``ClaimBuilder.larger``) joins ``LARGER`` and is no claim of its own: ``names`` leaves it out.
"""

from __future__ import annotations

from lplab.claims.framework.claim import Claim
from lplab.claims.papers.adacomp_2018 import ADACOMP_2018
from lplab.claims.papers.adacomp_2018_language import ADACOMP_2018_LANGUAGE
from lplab.claims.papers.adacomp_2018_language_large import ADACOMP_2018_LANGUAGE_LARGE
from lplab.claims.papers.adacomp_2018_selection import ADACOMP_2018_SELECTION
from lplab.claims.papers.awq_2024 import AWQ_2024
from lplab.claims.papers.ddl_2017 import DDL_2017
from lplab.claims.papers.deepseek_promotion_2024 import DEEPSEEK_PROMOTION_2024
from lplab.claims.papers.diloco_2023 import DILOCO_2023
from lplab.claims.papers.diloco_2023_meetings import DILOCO_2023_MEETINGS
from lplab.claims.papers.domains import DOMAINS_CLAIM
from lplab.claims.papers.domains_large import DOMAINS_LARGE
from lplab.claims.papers.error_feedback import ERROR_FEEDBACK
from lplab.claims.papers.error_feedback_large import ERROR_FEEDBACK_LARGE
from lplab.claims.papers.federated_2017 import FEDERATED_2017
from lplab.claims.papers.four_bits_saving import FOUR_BITS_SAVING
from lplab.claims.papers.gpt3_energy import GPT3_ENERGY
from lplab.claims.papers.gptq_2023 import GPTQ_2023
from lplab.claims.papers.gupta_2015 import GUPTA_2015
from lplab.claims.papers.gupta_2015_recovery import GUPTA_2015_RECOVERY
from lplab.claims.papers.gupta_2015_updates import GUPTA_2015_UPDATES
from lplab.claims.papers.hadamard_2025 import HADAMARD_2025
from lplab.claims.papers.hadamard_2025_forward import HADAMARD_2025_FORWARD
from lplab.claims.papers.hfp8_2019 import HFP8_2019
from lplab.claims.papers.hfp8_2019_broadcast import HFP8_2019_BROADCAST
from lplab.claims.papers.hfp8_2019_distributed import HFP8_2019_DISTRIBUTED
from lplab.claims.papers.hfp8_2019_inference import HFP8_2019_INFERENCE
from lplab.claims.papers.kivi_2024 import KIVI_2024
from lplab.claims.papers.kumar_2025 import KUMAR_2025
from lplab.claims.papers.lempel_ziv import LEMPEL_ZIV
from lplab.claims.papers.llm_int8_2022 import LLM_INT8_2022
from lplab.claims.papers.luq_2022 import LUQ_2022
from lplab.claims.papers.micikevicius_2018 import MICIKEVICIUS_2018
from lplab.claims.papers.mx_order_2025 import MX_ORDER_2025
from lplab.claims.papers.mxfp4_shrink_2025 import MXFP4_SHRINK_2025
from lplab.claims.papers.nvfp4_ingredients_2025 import NVFP4_INGREDIENTS_2025
from lplab.claims.papers.pact_2018 import PACT_2018
from lplab.claims.papers.paretoq_2025 import PARETOQ_2025
from lplab.claims.papers.patterson_2021 import PATTERSON_2021
from lplab.claims.papers.quarot_2024 import QUAROT_2024
from lplab.claims.papers.rapid_2021 import RAPID_2021
from lplab.claims.papers.sawb_2019 import SAWB_2019
from lplab.claims.papers.scalecom_2020 import SCALECOM_2020
from lplab.claims.papers.scalecom_2020_large import SCALECOM_2020_LARGE
from lplab.claims.papers.scalecom_2020_rates import SCALECOM_2020_RATES
from lplab.claims.papers.scalecom_2020_similarity import SCALECOM_2020_SIMILARITY
from lplab.claims.papers.scalecom_2020_speedup import SCALECOM_2020_SPEEDUP
from lplab.claims.papers.scalecom_2020_traffic import SCALECOM_2020_TRAFFIC
from lplab.claims.papers.sparseloco_2025 import SPARSELOCO_2025
from lplab.claims.papers.streaming_diloco_2025 import STREAMING_DILOCO_2025
from lplab.claims.papers.strubell_2019 import STRUBELL_2019
from lplab.claims.papers.sun_2020_ablation import SUN_2020_ABLATION
from lplab.claims.papers.sun_2020_ablation_large import SUN_2020_ABLATION_LARGE
from lplab.claims.papers.sun_2020_gradscale import SUN_2020_GRADSCALE
from lplab.claims.papers.sun_2020_gradscale_large import SUN_2020_GRADSCALE_LARGE
from lplab.claims.papers.sun_2020_hardware import SUN_2020_HARDWARE
from lplab.claims.papers.sun_2020_radix4 import SUN_2020_RADIX4
from lplab.claims.papers.sun_2020_threshold import SUN_2020_THRESHOLD
from lplab.claims.papers.sun_2020_two_phase import SUN_2020_TWO_PHASE
from lplab.claims.papers.sun_2020_two_phase_large import SUN_2020_TWO_PHASE_LARGE
from lplab.claims.papers.throughput_bits import THROUGHPUT_BITS
from lplab.claims.papers.wang_2018 import WANG_2018
from lplab.claims.papers.wang_2018_chunks import WANG_2018_CHUNKS
from lplab.claims.papers.wang_2018_fp8 import WANG_2018_FP8
from lplab.claims.papers.wang_2018_training import WANG_2018_TRAINING
from lplab.claims.papers.wang_2018_training_large import WANG_2018_TRAINING_LARGE
from lplab.claims.papers.wang_2018_update import WANG_2018_UPDATE
from lplab.claims.papers.zeropp_2023 import ZEROPP_2023
from lplab.lookup import closest_names

CLAIMS: tuple[Claim, ...] = (
    GUPTA_2015,
    GUPTA_2015_UPDATES,
    GUPTA_2015_RECOVERY,
    MICIKEVICIUS_2018,
    WANG_2018,
    WANG_2018_CHUNKS,
    WANG_2018_TRAINING,
    WANG_2018_UPDATE,
    WANG_2018_FP8,
    PACT_2018,
    SAWB_2019,
    HFP8_2019,
    HFP8_2019_DISTRIBUTED,
    HFP8_2019_INFERENCE,
    SUN_2020_THRESHOLD,
    SUN_2020_RADIX4,
    SUN_2020_GRADSCALE,
    SUN_2020_TWO_PHASE,
    SUN_2020_ABLATION,
    SUN_2020_HARDWARE,
    LUQ_2022,
    DEEPSEEK_PROMOTION_2024,
    MXFP4_SHRINK_2025,
    HADAMARD_2025,
    HADAMARD_2025_FORWARD,
    MX_ORDER_2025,
    NVFP4_INGREDIENTS_2025,
    GPTQ_2023,
    AWQ_2024,
    KUMAR_2025,
    LLM_INT8_2022,
    QUAROT_2024,
    KIVI_2024,
    PARETOQ_2025,
    ADACOMP_2018,
    ADACOMP_2018_LANGUAGE,
    ADACOMP_2018_SELECTION,
    SCALECOM_2020,
    SCALECOM_2020_RATES,
    SCALECOM_2020_TRAFFIC,
    SCALECOM_2020_SIMILARITY,
    ERROR_FEEDBACK,
    LEMPEL_ZIV,
    FEDERATED_2017,
    DILOCO_2023,
    DILOCO_2023_MEETINGS,
    STREAMING_DILOCO_2025,
    SPARSELOCO_2025,
    ZEROPP_2023,
    DDL_2017,
    SCALECOM_2020_SPEEDUP,
    HFP8_2019_BROADCAST,
    THROUGHPUT_BITS,
    RAPID_2021,
    FOUR_BITS_SAVING,
    STRUBELL_2019,
    PATTERSON_2021,
    GPT3_ENERGY,
    DOMAINS_CLAIM,
)

LARGER: tuple[Claim, ...] = (
    WANG_2018_TRAINING_LARGE,
    SUN_2020_TWO_PHASE_LARGE,
    SUN_2020_ABLATION_LARGE,
    SUN_2020_GRADSCALE_LARGE,
    ADACOMP_2018_LANGUAGE_LARGE,
    SCALECOM_2020_LARGE,
    ERROR_FEEDBACK_LARGE,
    DOMAINS_LARGE,
)
"""The larger experiments of some of these claims, each with ``larger_than``; in any order."""


def names() -> tuple[str, ...]:
    """The ids of all claims, in the order of the papers.

    >>> names()[0]
    'gupta_2015'
    """
    return tuple(claim.id for claim in CLAIMS)


def experiments() -> tuple[str, ...]:
    """The ids of all experiments, in the order of the claims: the small one of a claim, then its larger one if any.

    >>> experiments()[0]
    'gupta_2015'
    """
    return tuple(each.id for claim in CLAIMS for each in (claim, larger(claim)) if each)


def larger(claim: Claim) -> Claim | None:
    """The larger experiment of a claim; None if it has none, or is one.

    >>> larger(get("gupta_2015")) is None
    True
    """
    return next((each for each in LARGER if each.larger_than == claim.id), None)


def get(id_: str) -> Claim:
    """The claim, or the larger experiment, with this id.

    >>> get("gupta_2015").seeds
    (0, 1, 2, 3, 4)
    >>> get("gupta")
    Traceback (most recent call last):
    ...
    ValueError: unknown claim 'gupta'; did you mean gupta_2015? `lplab claims list` shows all
    """
    for claim in (*CLAIMS, *LARGER):
        if claim.id == id_:
            return claim
    close = closest_names(id_, experiments(), cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise ValueError(f"unknown claim {id_!r}; {hint}`lplab claims list` shows all")
